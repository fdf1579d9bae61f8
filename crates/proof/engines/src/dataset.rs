//! A benchmark's tables and queries at a scale factor.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{Answer, EngineError, RunDirectory, Step, tpcds, tpch};

/// Whose tables and queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// TPC-H: 8 tables, 22 queries.
    TpcH,
    /// TPC-DS: 24 tables, 99 queries.
    TpcDs,
}

impl Benchmark {
    /// Every benchmark, the default first.
    pub const ALL: [Self; 2] = [Self::TpcH, Self::TpcDs];

    /// Its name in options and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpcH => "tpch",
            Self::TpcDs => "tpcds",
        }
    }

    /// The benchmark with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|benchmark| benchmark.name() == name)
    }

    /// What every result is marked with.
    #[must_use]
    pub const fn disclaimer(self) -> &'static str {
        match self {
            Self::TpcH => "derived from TPC-H, not comparable to TPC results",
            Self::TpcDs => "derived from TPC-DS, not comparable to TPC results",
        }
    }
}

/// How large: 1 is about 1 GB of text.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Scale(f64);

impl Scale {
    /// As a number.
    #[must_use]
    pub fn factor(self) -> f64 {
        self.0
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(scale) if (0.001..=100_000.0).contains(&scale) => Ok(Self(scale)),
            _ => Err(format!("'{text}' is not a scale factor; write 0.01, 1 or 10")),
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A table: how to make it and what is in it.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// Its name.
    pub name: &'a str,
    /// Columns as in CREATE TABLE.
    pub columns: &'a str,
    /// Columns of the primary key.
    pub key: &'a str,
    /// Columns of further indexes, for engines that need them.
    pub indexes: &'a [&'a str],
}

/// A query in the common SQL of all engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its number in the benchmark.
    pub number: u32,
    /// One statement.
    pub sql: String,
}

/// The answer that a specification gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its rows.
    pub answer: Answer,
    /// Columns that it lacks, counted from 0.
    pub left_out: &'static [usize],
}

/// What is loaded and asked.
#[derive(Clone, Debug)]
pub struct Dataset {
    scale: Scale,
    /// Only of TPC-DS; TPC-H is inside this program.
    tpcds: Option<Arc<tpcds::Source>>,
}

impl Dataset {
    /// A benchmark's data at a scale factor.
    ///
    /// # Errors
    /// [`EngineError::NotInstalled`] when what makes the data is not there.
    pub fn open(benchmark: Benchmark, scale: Scale) -> Result<Self, EngineError> {
        let tpcds = match benchmark {
            Benchmark::TpcH => None,
            Benchmark::TpcDs => Some(Arc::new(tpcds::Source::find()?)),
        };
        Ok(Self { scale, tpcds })
    }

    /// Of which benchmark it is.
    #[must_use]
    pub fn benchmark(&self) -> Benchmark {
        if self.tpcds.is_some() { Benchmark::TpcDs } else { Benchmark::TpcH }
    }

    /// How large it is.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// What files of it are called.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-sf{}", self.benchmark().name(), self.scale)
    }

    /// Its tables, those that others refer to first where that is known.
    #[must_use]
    pub fn tables(&self) -> Vec<Table<'_>> {
        self.tpcds.as_ref().map_or_else(|| tpch::TABLES.to_vec(), |tpcds| tpcds.tables())
    }

    /// Its queries have the numbers 1 to this.
    #[must_use]
    pub fn queries(&self) -> u32 {
        self.tpcds.as_ref().map_or(tpch::QUERIES, |tpcds| tpcds.queries())
    }

    /// A query with the parameters that the specification validates answers with.
    ///
    /// # Errors
    /// [`EngineError::NoQuery`].
    pub fn query(&self, number: u32) -> Result<Query, EngineError> {
        let (benchmark, query) = match &self.tpcds {
            None => (tpch::TITLE, tpch::query(number, self.scale)),
            Some(tpcds) => (tpcds::TITLE, tpcds.query(number)),
        };
        query.ok_or(EngineError::NoQuery { benchmark, number, last: self.queries() })
    }

    /// The answer that the specification gives, where it gives one.
    #[must_use]
    pub fn reference(&self, number: u32) -> Option<Reference> {
        match &self.tpcds {
            None => tpch::reference(number, self.scale),
            Some(_) => None,
        }
    }

    /// Makes the rows of all tables, for a load: in `run` what cannot be made one by one.
    ///
    /// # Errors
    /// What the generator says, or [`EngineError::Interrupted`].
    pub(crate) fn generate<'a>(
        &'a self,
        run: &'a RunDirectory,
        say: &mut dyn FnMut(Step),
        stop: &AtomicBool,
    ) -> Result<Rows<'a>, EngineError> {
        Ok(match &self.tpcds {
            None => Rows::TpcH(self.scale),
            Some(tpcds) => {
                say(Step::Detail(format!("generating {}", self.name())));
                Rows::TpcDs(tpcds.generate(self.scale, run, stop)?)
            }
        })
    }

    /// Bytes of all tables as CSV, about.
    #[must_use]
    pub fn csv_bytes(&self) -> u64 {
        match &self.tpcds {
            None => tpch::csv_bytes(self.scale),
            Some(_) => tpcds::csv_bytes(self.scale),
        }
    }
}

/// The rows of all tables.
pub(crate) enum Rows<'a> {
    /// Made while they are written.
    TpcH(Scale),
    /// Made before.
    TpcDs(tpcds::Generated<'a>),
}

impl Rows<'_> {
    /// Writes a table as CSV, without a header.
    ///
    /// # Errors
    /// Those of the writer, or what the generator says.
    pub(crate) fn write(&self, table: &str, to: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::TpcH(scale) => tpch::write(table, *scale, to),
            Self::TpcDs(generated) => generated.write(table, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_factors() {
        assert_eq!("0.01".parse::<Scale>().unwrap().to_string(), "0.01");
        assert_eq!("10".parse::<Scale>().unwrap().to_string(), "10");
        for bad in ["", "0", "-1", "NaN", "inf", "1e9", "x"] {
            assert!(bad.parse::<Scale>().is_err(), "{bad}");
        }
    }
}
