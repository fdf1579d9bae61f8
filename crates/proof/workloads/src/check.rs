//! Computes the answer a second time by other means: one thread and no hash table. Records are
//! sorted by key and value, so groups are runs and medians lie in their middle.

use crate::WorkloadError;
use crate::aggregation::Function;
use crate::answer::{Answer, Row};
use crate::data::Record;
use crate::slices::Slices;

/// Computes the answer from the input.
///
/// # Errors
/// [`WorkloadError::Malloc`] when there is no room for a second copy of the input.
pub fn answer(slices: &Slices, function: Function) -> Result<Answer, WorkloadError> {
    let length: usize = slices.records().map(<[Record]>::len).sum();
    let mut sorted: Vec<Record> = Vec::new();
    sorted.try_reserve_exact(length).map_err(|_| WorkloadError::Malloc {
        what: "the check",
        bytes: (length * size_of::<Record>()) as u64,
    })?;
    slices.records().for_each(|slice| sorted.extend_from_slice(slice));
    sorted.sort_unstable();
    let rows: Vec<Row> = sorted
        .chunk_by(|a, b| a.key == b.key)
        .map(|run| Row {
            key: run[0].key,
            value: match function {
                Function::Count => run.len() as u64,
                // Both are the same element when the length is odd.
                Function::Median => run[(run.len() - 1) / 2].value + run[run.len() / 2].value,
            },
        })
        .collect();
    Ok(Answer::of(&rows))
}
