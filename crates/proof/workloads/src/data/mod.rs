//! The data sets: what a record is, and which key record `i` has.
//!
//! Source: systematic-numa-study, section 4.2. Every data set is a pure function of
//! `(seed, i)`, so that it is the same for any number of threads and any slice of it can be
//! generated where it will be read.

mod dump;
mod heavy_hitter;
mod moving_cluster;
mod sequential;
mod zipf;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

pub use dump::dump;
pub use moving_cluster::WINDOW;
use serde::Serialize;
pub use zipf::{EXPONENT, Zipf};

use crate::WorkloadError;
use crate::random::Draws;

/// Values are drawn from `0..VALUE_LIMIT`, so that the sum of two of them, of which a
/// median is the half, is exact in 64-bit integers and in the floating point of a database.
pub const VALUE_LIMIT: u64 = 1 << 32;

/// One row of the input table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// What is grouped by; below the number of groups.
    pub key: u64,
    /// What is aggregated; below [`VALUE_LIMIT`].
    pub value: u64,
}

/// A table whose records can be generated in any order.
pub trait Source: Sync {
    /// How many there are.
    fn records(&self) -> u64;
    /// Appends the records of a range to `records`.
    fn generate(&self, range: Range<u64>, records: &mut Vec<Record>);
}

/// How keys are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Uniform in a window that slides over the key range.
    MovingCluster,
    /// Consecutive keys, again and again.
    Sequential,
    /// Zipf's law with exponent 0.5.
    Zipf,
    /// One key holds half of the records, the others are uniform.
    HeavyHitter,
}

impl Distribution {
    /// All of them, in the order of the paper.
    pub const ALL: [Self; 4] =
        [Self::MovingCluster, Self::Sequential, Self::Zipf, Self::HeavyHitter];

    /// The name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MovingCluster => "moving-cluster",
            Self::Sequential => "sequential",
            Self::Zipf => "zipf",
            Self::HeavyHitter => "heavy-hitter",
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|d| d.name()).collect();
            format!("no data set '{name}'; there are {}", names.join(", "))
        })
    }
}

/// One data set, completely determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DataSet {
    /// How keys are distributed.
    #[serde(rename = "data")]
    pub distribution: Distribution,
    /// Number of records.
    pub records: u64,
    /// Number of keys that may occur: `0..groups`.
    pub groups: u64,
    /// Seed of all draws.
    pub seed: u64,
}

impl DataSet {
    /// Refuses sizes without meaning.
    ///
    /// # Errors
    /// [`WorkloadError::NoRecords`], [`WorkloadError::NoGroups`],
    /// [`WorkloadError::MoreGroupsThanRecords`].
    pub fn validate(&self) -> Result<(), WorkloadError> {
        match (self.records, self.groups) {
            (0, _) => Err(WorkloadError::NoRecords),
            (_, 0) => Err(WorkloadError::NoGroups),
            (records, groups) if groups > records => {
                Err(WorkloadError::MoreGroupsThanRecords { groups, records })
            }
            _ => Ok(()),
        }
    }

    /// Prepares the generation of records.
    #[must_use]
    pub fn generator(&self) -> Generator {
        let keys = match self.distribution {
            Distribution::MovingCluster => Keys::MovingCluster,
            Distribution::Sequential => Keys::Sequential,
            Distribution::Zipf => Keys::Zipf(Zipf::new(self.groups, EXPONENT)),
            Distribution::HeavyHitter => {
                Keys::HeavyHitter { heavy: heavy_hitter::heavy_key(self.seed, self.groups) }
            }
        };
        Generator { set: *self, keys }
    }
}

impl Source for DataSet {
    fn records(&self) -> u64 {
        self.records
    }

    fn generate(&self, range: Range<u64>, records: &mut Vec<Record>) {
        let generator = self.generator();
        records.extend(range.map(|i| generator.record(i)));
    }
}

#[derive(Clone, Debug)]
enum Keys {
    MovingCluster,
    Sequential,
    Zipf(Zipf),
    HeavyHitter { heavy: u64 },
}

/// Generates the records of one data set, in any order.
#[derive(Clone, Debug)]
pub struct Generator {
    set: DataSet,
    keys: Keys,
}

impl Generator {
    /// Record `index`, which must be below the number of records.
    #[must_use]
    pub fn record(&self, index: u64) -> Record {
        let DataSet { records, groups, seed, .. } = self.set;
        let mut draws = Draws::of(seed, index);
        let key = match &self.keys {
            Keys::MovingCluster => moving_cluster::key(index, records, groups, &mut draws),
            Keys::Sequential => sequential::key(index, groups),
            Keys::Zipf(zipf) => zipf.sample(&mut draws),
            Keys::HeavyHitter { heavy } => {
                heavy_hitter::key(index, records, groups, *heavy, seed, &mut draws)
            }
        };
        Record { key, value: draws.below(VALUE_LIMIT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checksums of the first 100,000 records of each set, fixed when the generators were
    /// first verified: results published once stay reproducible.
    #[test]
    fn golden_checksums() {
        let sums = Distribution::ALL.map(|distribution| {
            let set = DataSet { distribution, records: 100_000, groups: 1_000, seed: 42 };
            let generator = set.generator();
            (0..set.records).fold(0u64, |sum, i| {
                let Record { key, value } = generator.record(i);
                crate::random::mix(sum ^ crate::random::mix(key) ^ value)
            })
        });
        assert_eq!(
            format!("{sums:x?}"),
            "[df6c7e0a2f7dfe, 6bcd37ab935529c9, bf92cda0a28f783b, 54bc875f35473cc1]"
        );
    }

    #[test]
    fn keys_stay_below_the_number_of_groups() {
        for distribution in Distribution::ALL {
            for groups in [1, 2, 3, 64, 65, 1_000] {
                let set = DataSet { distribution, records: 5_001, groups, seed: 3 };
                let generator = set.generator();
                for i in 0..set.records {
                    let record = generator.record(i);
                    assert!(record.key < groups, "{distribution} {groups}: {record:?}");
                    assert!(record.value < VALUE_LIMIT);
                }
            }
        }
    }

    #[test]
    fn names_are_read_back() {
        for distribution in Distribution::ALL {
            assert_eq!(distribution.name().parse(), Ok(distribution));
        }
        assert!("uniform".parse::<Distribution>().unwrap_err().contains("heavy-hitter"));
    }
}
