//! W1, holistic aggregation: `SELECT key, MEDIAN(value) ... GROUP BY key`.
//!
//! Source: systematic-numa-study 3.1. The word of the shared table is the number of the group. The
//! group holds its values in its own buffer, which grows as values arrive. This keeps `malloc`
//! busy: one thread grows and frees what another one allocated.
//!
//! ```text
//!                     Table          Groups                        buffers
//!   runs (6) ---+---> key -> id ---> { key, lock { start, len } } ---> values, grown by
//!               |                                                      the appending thread
//!               +---> hot keys: collections of 16 runs
//! ```

mod buffer;
mod group;
mod hot;
mod median;
mod select;

use serde::Serialize;
use serde_json::json;

use self::buffer::{Chunks, Piece};
use self::median::Median;
use crate::WorkloadError;
use crate::aggregation::{self, Function, Need, Options, TABLE_BYTES_PER_GROUP};
use crate::outcome::{Figures, Outcome};
use crate::slices::Slices;
use crate::table::preaggregation::{self, Run};

/// Values of one group that a thread collects before it takes the group's lock.
pub const RUN: usize = 6;

/// Up to [`RUN`] values of one group.
type Values = Run<RUN>;

/// A buffer that has just doubled is half empty, and its old half is still held. A group has a
/// header of 40 bytes and at least four values, with malloc's own.
const NEED: Need = Need {
    bytes_per_record: 2 * size_of::<u64>() as u64,
    bytes_per_group: TABLE_BYTES_PER_GROUP + 40 + 48,
    preaggregation_bytes: preaggregation::bytes::<RUN>,
};

/// Where the memory of the groups' buffers comes from (allocation-for-query-processing 5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationPattern {
    /// One allocation per buffer, from `malloc`.
    #[default]
    Raw,
    /// Each thread cuts buffers from chunks that it takes from `malloc`.
    Chunked,
}

/// How a thread takes records to the table that all threads share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Insertion {
    /// It gathers runs of [`RUN`] values of a key, and takes a batch of runs.
    #[default]
    Gathered,
    /// It takes each record at once: a look-up, the group's lock, an append
    /// (systematic-numa-study 4.2, "a shared global hash table").
    Single,
}

/// Runs W1.
///
/// # Errors
/// See [`WorkloadError`].
pub fn run(
    options: &Options,
    pattern: AllocationPattern,
    insertion: Insertion,
) -> Result<Outcome, WorkloadError> {
    aggregation::validate("w1", options, NEED)?;
    let threads = options.threads.get();
    let mut parameters = serde_json::to_value(options).unwrap_or_default();
    parameters["allocation_pattern"] = json!(pattern);
    parameters["insertion"] = json!(insertion);
    let figures = Figures { workload: "w1", threads, parameters };
    let slices = Slices::new(options.set, threads);
    match pattern {
        AllocationPattern::Raw => {
            let median = Median::<Vec<u64>>::new(options, insertion)?;
            let homes = median.homes(vec![(); threads], options)?;
            aggregation::run(figures, options, Function::Median, &slices, &median, homes)
        }
        AllocationPattern::Chunked => {
            let mut chunks: Vec<Chunks> = (0..threads).map(|_| Chunks::new()).collect();
            let median = Median::<Piece<'_>>::new(options, insertion)?;
            let homes = median.homes(chunks.iter_mut(), options)?;
            aggregation::run(figures, options, Function::Median, &slices, &median, homes)
        }
    }
}
