//! The benchmarks, and the contents of their data sets.

use std::fmt;
use std::str::FromStr;

use crate::Answer;

/// A benchmark.
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

    /// The name in options and files.
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

    /// The disclaimer on every result.
    #[must_use]
    pub const fn disclaimer(self) -> &'static str {
        match self {
            Self::TpcH => "derived from TPC-H, not comparable to TPC results",
            Self::TpcDs => "derived from TPC-DS, not comparable to TPC results",
        }
    }
}

/// The scale factor; 1 is about 1 GB of text.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Scale(f64);

impl Scale {
    /// The factor as a number.
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

/// A table: its definition.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// The name.
    pub name: &'a str,
    /// Columns as in CREATE TABLE.
    pub columns: &'a str,
    /// Columns of the primary key.
    pub key: &'a str,
    /// Columns of further indexes, for engines that need them.
    pub indexes: &'a [&'a str],
}

/// A query in the SQL that all engines share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The number in the benchmark.
    pub number: u32,
    /// A single statement.
    pub sql: String,
}

/// The answer given by a specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The rows.
    pub answer: Answer,
    /// Columns that the answer lacks, counted from 0.
    pub left_out: &'static [usize],
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
