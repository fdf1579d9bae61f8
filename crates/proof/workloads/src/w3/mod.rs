//! W3, the non-partitioned hash join: all threads build one table from the small table, wait for
//! each other, and probe it with the large one.
//!
//! Source: systematic-numa-study 4.2, after Balkesen et al. 2013 ("no partitioning join").

mod array;
mod hash;

use std::fmt;

use serde::Serialize;
use serde_json::json;

use self::array::Array;
use self::hash::Table;
use crate::WorkloadError;
use crate::data::Record;
use crate::join::{self, Matcher, Method, Options, Refused, answer::Answer};
use crate::outcome::Outcome;

/// The structure that is built from the small table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Build {
    /// A hash table.
    Hash,
    /// An array that a key indexes.
    Array,
}

impl Build {
    /// The choice of an engine whose statistics show dense keys.
    #[must_use]
    pub const fn for_dense_keys(small: u64) -> Self {
        if small <= array::MOST_KEYS { Self::Array } else { Self::Hash }
    }

    const fn bytes_per_tuple(self) -> u64 {
        match self {
            Self::Hash => hash::BYTES_PER_TUPLE,
            Self::Array => array::BYTES_PER_KEY,
        }
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "hash join",
            Self::Array => "array join with dense keys",
        })
    }
}

/// Runs W3.
///
/// # Errors
/// See [`WorkloadError`].
pub fn run(options: &Options, build: Build) -> Result<Outcome<Answer>, WorkloadError> {
    let bytes_per_tuple = build.bytes_per_tuple();
    let method = Method { workload: "w3", probing: "probe", bytes_per_tuple };
    join::validate(method, options)?;
    let mut parameters = serde_json::to_value(options).unwrap_or_default();
    parameters["table"] = json!(build);
    let small = options.set.small;
    match build {
        Build::Hash => join::run(method, parameters, options, &Table::new(small)?),
        // The keys are 1..=small.
        Build::Array => join::run(method, parameters, options, &Array::new(small)?),
    }
}

impl Matcher for Table {
    fn build(&self, tuples: &[Record]) -> Result<(), Refused> {
        self.insert(tuples);
        Ok(())
    }

    fn probe(&self, tuples: &[Record], found: impl FnMut(u64, u64)) {
        self.find(tuples, found);
    }
}
