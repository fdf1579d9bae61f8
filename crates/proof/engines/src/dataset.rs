//! A benchmark's tables and queries at a scale factor.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use crate::{Answer, EngineError, tpch};

/// Whose tables and queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// TPC-H: 8 tables, 22 queries.
    TpcH,
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
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Columns as in CREATE TABLE.
    pub columns: &'static str,
    /// Columns of the primary key.
    pub key: &'static str,
    /// Columns of further indexes, for engines that need them.
    pub indexes: &'static [&'static str],
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dataset {
    /// Of which benchmark.
    pub benchmark: Benchmark,
    /// How large.
    pub scale: Scale,
}

impl Dataset {
    /// What files of it are called.
    #[must_use]
    pub fn name(&self) -> String {
        match self.benchmark {
            Benchmark::TpcH => format!("tpch-sf{}", self.scale),
        }
    }

    /// Its tables, those that others refer to first.
    #[must_use]
    pub fn tables(&self) -> &'static [Table] {
        match self.benchmark {
            Benchmark::TpcH => tpch::TABLES,
        }
    }

    /// Its queries have the numbers 1 to this.
    #[must_use]
    pub fn queries(&self) -> u32 {
        match self.benchmark {
            Benchmark::TpcH => tpch::QUERIES,
        }
    }

    /// A query with the parameters that the specification validates answers with.
    ///
    /// # Errors
    /// [`EngineError::NoQuery`].
    pub fn query(&self, number: u32) -> Result<Query, EngineError> {
        match self.benchmark {
            Benchmark::TpcH => tpch::query(number, self.scale),
        }
    }

    /// The answer that the specification gives, where it gives one.
    #[must_use]
    pub fn reference(&self, number: u32) -> Option<Reference> {
        match self.benchmark {
            Benchmark::TpcH => tpch::reference(number, self.scale),
        }
    }

    /// Writes a table as CSV, without a header.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, table: &Table, to: &mut dyn Write) -> io::Result<()> {
        match self.benchmark {
            Benchmark::TpcH => tpch::write(table, self.scale, to),
        }
    }

    /// Bytes of all tables as CSV, about.
    #[must_use]
    pub fn csv_bytes(&self) -> u64 {
        match self.benchmark {
            Benchmark::TpcH => tpch::csv_bytes(self.scale),
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
