//! Computes the answer a second time by other means: one thread and an array that a key indexes; no
//! hash table and no index.

use super::answer::Answer;
use super::data::{Large, Small};
use crate::WorkloadError;
use crate::data::Record;
use crate::slices::Slices;

/// Computes the answer from the tables.
///
/// # Errors
/// [`WorkloadError::Malloc`] when there is no memory for the array.
pub fn answer(small: &Slices<Small>, large: &Slices<Large>) -> Result<Answer, WorkloadError> {
    let length = small.records().map(<[Record]>::len).sum::<usize>() + 1;
    let mut payloads: Vec<u64> = Vec::new();
    payloads.try_reserve_exact(length).map_err(|_| WorkloadError::Malloc {
        what: "the check",
        bytes: (length * size_of::<u64>()) as u64,
    })?;
    payloads.resize(length, 0);
    // Keys are at most the number of tuples.
    for tuple in small.records().flatten() {
        payloads[tuple.key as usize] = tuple.value;
    }
    let (mut rows, mut sum) = (0, 0u64);
    for tuple in large.records().flatten() {
        // Payloads begin with 1.
        if let Some(payload @ 1..) = payloads.get(tuple.key as usize) {
            rows += 1;
            sum = sum.wrapping_add(payload.wrapping_mul(tuple.value));
        }
    }
    Ok(Answer::new(rows, sum))
}
