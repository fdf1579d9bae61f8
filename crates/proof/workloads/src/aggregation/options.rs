//! What an aggregation computes, and how it runs.

use std::num::NonZeroUsize;

use serde::Serialize;

use crate::data::DataSet;

/// The aggregate of each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// W2: the number of records.
    Count,
    /// W1: the median of the values. For an even number of values it is the mean of the middle two,
    /// as in SQL engines. Rows hold twice the median, which is an integer.
    Median,
}

/// Which thread fills the input table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Each thread fills the slice that it will read.
    #[default]
    Threads,
    /// The main thread fills everything.
    Main,
}

/// How to run W1 or W2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Options {
    /// The input table.
    #[serde(flatten)]
    pub set: DataSet,
    /// Number of threads, including the main thread.
    #[serde(skip)]
    pub threads: NonZeroUsize,
    /// Which thread fills the input table.
    pub load: Load,
    /// The number of groups for which the hash table is sized, as a query optimiser would estimate
    /// it. A table that is too small grows.
    pub estimate: u64,
    /// Whether to compute the answer a second time, independently, and compare.
    #[serde(skip)]
    pub check: bool,
}
