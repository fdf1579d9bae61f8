//! W3, the non-partitioned hash join: all threads build one hash table on the small table,
//! wait for each other, and probe it with the large one.
//!
//! Source: systematic-numa-study 4.2, after Balkesen et al. 2013 ("no partitioning join").

mod table;

use self::table::Table;
use crate::WorkloadError;
use crate::data::Record;
use crate::join::{self, Matcher, Method, Options, Refused, answer::Answer};
use crate::outcome::Outcome;

/// What W3 is.
const METHOD: Method =
    Method { workload: "w3", probing: "probe", bytes_per_tuple: table::BYTES_PER_TUPLE };

/// Runs W3.
///
/// # Errors
/// See [`WorkloadError`].
pub fn run(options: &Options) -> Result<Outcome<Answer>, WorkloadError> {
    join::validate(METHOD, options)?;
    let table = Table::new(options.set.small)?;
    let parameters = serde_json::to_value(options).unwrap_or_default();
    join::run(METHOD, parameters, options, &table)
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
