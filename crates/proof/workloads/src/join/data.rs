//! The two tables that are joined.
//!
//! Source: systematic-numa-study 4.2 and its reference \[8\] (Balkesen, Teubner, Alonso, Özsu:
//! "Main-memory hash joins on multi-core CPUs", ICDE 2013): 16 Mi and 256 Mi tuples of an 8-byte
//! key and an 8-byte payload. The keys of the small table are a shuffle of `1..=|R|`. The large
//! table refers to them in |S| / |R| blocks, each a new shuffle, so every tuple of it has exactly
//! one partner. With skew, its keys follow Zipf's law instead. Payloads are row numbers, from 1.

use std::ops::Range;

use serde::Serialize;

use super::permutation::Permutation;
use crate::WorkloadError;
use crate::data::{Record, Source, Zipf};
use crate::random::Draws;

/// The exponent of the skewed large table.
pub const SKEW: f64 = 1.05;

/// How the large table refers to the small one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// Every key equally often, in blocks that are each a new shuffle.
    Shuffle,
    /// By Zipf's law with exponent [`SKEW`]; popular keys are spread over the key range.
    Zipf,
}

/// Both tables, completely determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JoinSet {
    /// Tuples of the small table R, whose keys are `1..=small`.
    pub small: u64,
    /// Tuples of the large table S.
    pub large: u64,
    /// The keys of the large table.
    #[serde(rename = "data")]
    pub keys: Keys,
    /// Seed of all draws.
    pub seed: u64,
}

impl JoinSet {
    /// Rejects meaningless sizes.
    ///
    /// # Errors
    /// [`WorkloadError::NoTuples`].
    pub fn validate(&self) -> Result<(), WorkloadError> {
        if self.small == 0 || self.large == 0 {
            return Err(WorkloadError::NoTuples);
        }
        Ok(())
    }

    /// The build table.
    #[must_use]
    pub fn small_table(self) -> Small {
        Small(self)
    }

    /// The probe table.
    #[must_use]
    pub fn large_table(self) -> Large {
        Large(self)
    }
}

/// The small table.
#[derive(Clone, Copy, Debug)]
pub struct Small(JoinSet);

impl Source for Small {
    fn records(&self) -> u64 {
        self.0.small
    }

    fn generate(&self, range: Range<u64>, records: &mut Vec<Record>) {
        let order = Permutation::new(self.0.small, self.0.seed, 0);
        records.extend(range.map(|i| Record { key: order.at(i) + 1, value: i + 1 }));
    }
}

/// The large table.
#[derive(Clone, Copy, Debug)]
pub struct Large(JoinSet);

impl Source for Large {
    fn records(&self) -> u64 {
        self.0.large
    }

    fn generate(&self, range: Range<u64>, records: &mut Vec<Record>) {
        match self.0.keys {
            Keys::Shuffle => self.shuffled(range, records),
            Keys::Zipf => self.skewed(range, records),
        }
    }
}

impl Large {
    fn shuffled(&self, range: Range<u64>, records: &mut Vec<Record>) {
        let JoinSet { small, seed, .. } = self.0;
        let mut start = range.start;
        while start < range.end {
            let block = start / small;
            let first = block * small;
            let end = range.end.min(first.saturating_add(small));
            // Stream 0 belongs to the small table.
            let order = Permutation::new(small, seed, block + 1);
            let tuple = |i| Record { key: order.at(i - first) + 1, value: i + 1 };
            records.extend((start..end).map(tuple));
            start = end;
        }
    }

    fn skewed(&self, range: Range<u64>, records: &mut Vec<Record>) {
        let JoinSet { small, seed, .. } = self.0;
        let (zipf, order) = (Zipf::new(small, SKEW), Permutation::new(small, seed, 1));
        // Draws independent of those of the permutations.
        let rank = |i| zipf.sample(&mut Draws::of(!seed, i));
        records.extend(range.map(|i| Record { key: order.at(rank(i)) + 1, value: i + 1 }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix;

    const SET: JoinSet = JoinSet { small: 1_000, large: 16_500, keys: Keys::Shuffle, seed: 42 };

    fn table(source: &impl Source) -> Vec<Record> {
        let mut records = Vec::new();
        source.generate(0..source.records(), &mut records);
        records
    }

    fn checksum(records: &[Record]) -> u64 {
        records.iter().fold(0, |sum, Record { key, value }| mix(sum ^ mix(*key) ^ value))
    }

    /// Fixed when the generators were first verified, so that published results stay reproducible.
    #[test]
    fn golden_checksums() {
        let skewed = JoinSet { keys: Keys::Zipf, ..SET };
        let sums = [
            checksum(&table(&SET.small_table())),
            checksum(&table(&SET.large_table())),
            checksum(&table(&skewed.large_table())),
        ];
        assert_eq!(format!("{sums:x?}"), "[dd7dc5b9d1e4d5b6, e437a29dbff218f0, bc02b855233c058e]");
    }

    #[test]
    fn every_block_has_every_key_once_in_another_order() {
        let large = table(&SET.large_table());
        assert_eq!(large.len(), 16_500);
        assert!(large.iter().zip(1..).all(|(tuple, row)| tuple.value == row));
        let mut blocks: Vec<Vec<u64>> =
            large.chunks(1_000).map(|block| block.iter().map(|t| t.key).collect()).collect();
        let rest = blocks.pop().unwrap();
        assert!(blocks.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(rest.iter().all(|key| (1..=1_000).contains(key)));
        for mut block in blocks {
            block.sort_unstable();
            assert!(block.into_iter().eq(1..=1_000));
        }
    }

    #[test]
    fn slices_do_not_depend_on_where_they_are_cut() {
        for keys in [Keys::Shuffle, Keys::Zipf] {
            let source = JoinSet { keys, ..SET }.large_table();
            let mut pieces = Vec::new();
            for range in [0..1, 1..999, 999..3_001, 3_001..16_500] {
                source.generate(range, &mut pieces);
            }
            assert_eq!(pieces, table(&source));
        }
    }

    #[test]
    fn skew_makes_one_key_much_more_frequent() {
        let mut seen = vec![0u32; 1_001];
        for tuple in table(&JoinSet { keys: Keys::Zipf, ..SET }.large_table()) {
            seen[tuple.key as usize] += 1;
        }
        assert_eq!(seen[0], 0);
        // 1 / sum of k^-1.05 for k up to 1000 is 0.151.
        let most = f64::from(*seen.iter().max().unwrap()) / 16_500.0;
        assert!((most - 0.151).abs() < 0.015, "{most}");
    }
}
