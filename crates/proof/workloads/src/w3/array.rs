//! The table of a join with dense keys: an array that a key indexes. Engines use it when their
//! statistics show dense keys (DuckDB's "perfect hash join", up to 1 Mi keys). A tuple needs an
//! eighth of a cache line instead of half of one in the hash table. The array therefore fits into a
//! cache for longer, and no keys are compared.
//!
//! Its accesses still go to pages all over the memory, each on the node of the thread that touched
//! it first, in the order of the keys.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::WorkloadError;
use crate::data::Record;
use crate::join::{Matcher, Refused};

/// Memory for each key.
pub const BYTES_PER_KEY: u64 = size_of::<u64>() as u64;
/// With more keys than this, engines do not build an array, whatever their statistics.
pub const MOST_KEYS: u64 = 1 << 20;

/// The array: payload of key 1, payload of key 2, ...; 0 where there is no tuple.
#[derive(Debug)]
pub struct Array(Box<[AtomicU64]>);

impl Array {
    /// An array for the keys `1..=keys`.
    ///
    /// # Errors
    /// [`WorkloadError::Malloc`].
    pub fn new(keys: u64) -> Result<Self, WorkloadError> {
        let malloc = || WorkloadError::Malloc {
            what: "the array",
            bytes: keys.saturating_mul(BYTES_PER_KEY),
        };
        let words = usize::try_from(keys).map_err(|_| malloc())?;
        bytemuck::try_zeroed_slice_box(words).map(Self).map_err(|()| malloc())
    }

    fn at(&self, key: u64) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(key.wrapping_sub(1)).ok()?)
    }
}

impl Matcher for Array {
    fn build(&self, tuples: &[Record]) -> Result<(), Refused> {
        for tuple in tuples {
            self.at(tuple.key).ok_or(Refused)?.store(tuple.value, Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn probe(&self, tuples: &[Record], mut found: impl FnMut(u64, u64)) {
        for tuple in tuples {
            match self.at(tuple.key).map(|payload| payload.load(Relaxed)) {
                None | Some(0) => {}
                Some(payload) => found(payload, tuple.value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_a_tuple_have_no_partner() {
        let record = |key, value| Record { key, value };
        let array = Array::new(4).unwrap();
        array.build(&[record(3, 30), record(1, 10)]).unwrap();
        let mut pairs = Vec::new();
        let asked: Vec<Record> = [0, 1, 2, 3, 3, 4, 5, u64::MAX].map(|key| record(key, key)).into();
        array.probe(&asked, |small, large| pairs.push((small, large)));
        assert_eq!(pairs, [(10, 1), (30, 3), (30, 3)]);
        assert!(array.build(&[record(5, 1)]).is_err() && array.build(&[record(0, 1)]).is_err());
    }

    #[test]
    fn an_impossible_size_is_refused() {
        assert!(Array::new(u64::MAX).is_err() && Array::new(1 << 60).is_err());
    }
}
