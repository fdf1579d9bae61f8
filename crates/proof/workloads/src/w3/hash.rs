//! The hash table of the join: buckets of one cache line, all in one array from `calloc`.
//!
//! ```text
//!   bucket = hash(key) * buckets >> 64
//!     v
//!   | k k k k p p p p |  next bucket ...        64 bytes: four keys (0 = free), four payloads
//! ```
//!
//! One compare-and-swap claims a key, and its payload is stored after that, because no thread
//! probes before all have built. A tuple whose bucket is full goes to the next one, so a search
//! ends at the first bucket with a free place. With two tuples per bucket on average, one search in
//! seven has to read a second line, which is adjacent to the first.
//!
//! Searches run in groups (Chen, Ailamaki, Gibbons, Mowry: "Improving hash join performance through
//! prefetching", ICDE 2004): first one load from each search's bucket, all in flight at the same
//! time, then the comparisons.
//!
//! The kernel zeroes the array. Each page lies on the node of the thread that first puts a tuple
//! there, and is a huge page if the allocator requests those.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::WorkloadError;
use crate::data::Record;
use crate::table::hash;

/// Tuples of a bucket.
const PLACES: usize = 4;
/// Words of a bucket: the keys, then the payloads.
const WORDS: usize = 2 * PLACES;
/// Bytes of a bucket, and its alignment in memory.
const LINE: usize = WORDS * size_of::<u64>();
/// Tuples per bucket on average.
const TUPLES_PER_BUCKET: u64 = 2;
/// Searches that run together.
const GROUP: usize = 64;

/// Memory for each tuple.
pub const BYTES_PER_TUPLE: u64 = LINE as u64 / TUPLES_PER_BUCKET;

type Bucket = [AtomicU64; WORDS];

/// The table.
#[derive(Debug)]
pub struct Table {
    words: Box<[AtomicU64]>,
    /// Words before the first bucket, which begins at a cache line.
    skipped: usize,
}

impl Table {
    /// A table for at most `tuples` tuples.
    ///
    /// # Errors
    /// [`WorkloadError::Malloc`].
    pub fn new(tuples: u64) -> Result<Self, WorkloadError> {
        let malloc = || WorkloadError::Malloc {
            what: "the hash table",
            bytes: tuples.saturating_mul(BYTES_PER_TUPLE),
        };
        // One more for the alignment.
        let buckets = tuples.div_ceil(TUPLES_PER_BUCKET) + 1;
        let words = usize::try_from(buckets).ok().and_then(|n| n.checked_mul(WORDS));
        let words = words.ok_or_else(malloc)?;
        let words: Box<[AtomicU64]> =
            bytemuck::try_zeroed_slice_box(words).map_err(|()| malloc())?;
        let skipped = words.as_ptr().align_offset(LINE).min(WORDS);
        Ok(Self { words, skipped })
    }

    fn buckets(&self) -> &[Bucket] {
        let (buckets, _) = self.words[self.skipped..].as_chunks();
        buckets
    }

    /// The first bucket of each search of a group, and the first key in it. Loading the key brings
    /// the line into the cache.
    #[inline]
    fn homes(buckets: &[Bucket], group: &[Record]) -> [(usize, u64); GROUP] {
        let mut homes = [(0, 0); GROUP];
        for (home, tuple) in homes.iter_mut().zip(group) {
            // Below the number of buckets.
            let at = ((u128::from(hash(tuple.key)) * buckets.len() as u128) >> 64) as usize;
            *home = (at, buckets[at][0].load(Relaxed));
        }
        homes
    }

    /// Inserts tuples of the small table, whose keys are not 0.
    pub fn insert(&self, tuples: &[Record]) {
        let buckets = self.buckets();
        for group in tuples.chunks(GROUP) {
            let homes = Self::homes(buckets, group);
            for (&(home, first), tuple) in homes.iter().zip(group) {
                insert(buckets, home, first, tuple);
            }
        }
    }

    /// Calls `found` with the payloads of every pair of equal keys.
    #[inline]
    pub fn find(&self, tuples: &[Record], mut found: impl FnMut(u64, u64)) {
        let buckets = self.buckets();
        for group in tuples.chunks(GROUP) {
            let homes = Self::homes(buckets, group);
            for (&(home, first), tuple) in homes.iter().zip(group) {
                find(buckets, home, first, tuple, &mut found);
            }
        }
    }
}

fn insert(buckets: &[Bucket], home: usize, first: u64, tuple: &Record) {
    let mut at = home;
    // A place stays taken. The earlier contents of the first place therefore tell whether it is
    // worth a try.
    let mut place = usize::from(first != 0);
    loop {
        while place < PLACES {
            let key = &buckets[at][place];
            if key.load(Relaxed) == 0
                && key.compare_exchange(0, tuple.key, Relaxed, Relaxed).is_ok()
            {
                buckets[at][PLACES + place].store(tuple.value, Relaxed);
                return;
            }
            place += 1;
        }
        // There are twice as many places as tuples, so one is free.
        (at, place) = (next(buckets, at), 0);
    }
}

#[inline]
fn find(
    buckets: &[Bucket],
    home: usize,
    first: u64,
    tuple: &Record,
    found: &mut impl FnMut(u64, u64),
) {
    let (mut at, mut first) = (home, first);
    loop {
        let bucket = &buckets[at];
        let keys =
            [first, bucket[1].load(Relaxed), bucket[2].load(Relaxed), bucket[3].load(Relaxed)];
        // Which place matches is unpredictable, but whether one matches mostly is not.
        let equal = |place: usize| u32::from(keys[place] == tuple.key) << place;
        let mut matches = equal(0) | equal(1) | equal(2) | equal(3);
        while matches != 0 {
            let place = matches.trailing_zeros() as usize % PLACES;
            found(bucket[PLACES + place].load(Relaxed), tuple.value);
            matches &= matches - 1;
        }
        // Places are taken in order.
        if keys[PLACES - 1] == 0 {
            return;
        }
        at = next(buckets, at);
        first = buckets[at][0].load(Relaxed);
    }
}

fn next(buckets: &[Bucket], at: usize) -> usize {
    if at + 1 < buckets.len() { at + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    fn pairs(table: &Table, tuples: &[Record]) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        table.find(tuples, |small, large| pairs.push((small, large)));
        pairs.sort_unstable();
        pairs
    }

    proptest! {
        #[test]
        fn it_joins_like_nested_loops(
            small in prop::collection::vec((1u64..200, 1u64..1_000), 1..300),
            large in prop::collection::vec((1u64..250, 1u64..1_000), 0..300),
        ) {
            let records = |tuples: &[(u64, u64)]| -> Vec<Record> {
                tuples.iter().map(|&(key, value)| Record { key, value }).collect()
            };
            let table = Table::new(small.len() as u64).unwrap();
            table.insert(&records(&small));
            let mut expected: Vec<(u64, u64)> = Vec::new();
            for (key, payload) in &large {
                let partners = small.iter().filter(|(other, _)| other == key);
                expected.extend(partners.map(|(_, other)| (*other, *payload)));
            }
            expected.sort_unstable();
            prop_assert_eq!(pairs(&table, &records(&large)), expected);
        }
    }

    #[test]
    fn threads_that_build_at_the_same_time_lose_nothing() {
        let tuples: Vec<Record> = (1..=20_000).map(|key| Record { key, value: key * 7 }).collect();
        let table = Table::new(tuples.len() as u64).unwrap();
        thread::scope(|scope| {
            for part in tuples.chunks(5_000) {
                let table = &table;
                scope.spawn(move || table.insert(part));
            }
        });
        let found: HashMap<u64, u64> = pairs(&table, &tuples).into_iter().collect();
        assert_eq!(found.len(), 20_000);
        assert!(found.iter().all(|(small, large)| small == large));
    }

    #[test]
    fn buckets_are_cache_lines() {
        let table = Table::new(1_000).unwrap();
        assert_eq!(table.buckets().as_ptr().addr() % LINE, 0);
        assert!(table.buckets().len() >= 500);
    }

    #[test]
    fn an_impossible_size_is_refused() {
        assert!(Table::new(u64::MAX).is_err());
        assert!(Table::new(1 << 58).is_err());
    }
}
