//! What a thread gathers by itself before it goes to the table that all threads share.
//!
//! A set-associative cache of groups: a key may be in any way of its bucket, and when all are
//! taken, one of them makes room. What leaves is a partial result of at least one record,
//! so that keys which occur often or close together reach the shared table, with its
//! atomic operations and its cache lines that travel between CPUs, once per partial
//! result instead of once per record. (Cieslewicz, Ross: "Adaptive aggregation on chip
//! multiprocessors", VLDB 2007.)
//!
//! ```text
//!   low bits of hash(key)
//!     v
//!   | k k k k  p p p p | k k k k  p p p p |     k = key + 1, 0 = free; p = partial result
//! ```
//!
//! It has room for all groups if that takes no more than [`LARGEST_BYTES`]. If it takes
//! more, a cache that holds some of them would miss too often to be worth its own misses,
//! and only keys that come close together are gathered, within a first-level cache.

use std::mem;

use numapilot_sys::prefetch;

use super::{Lookup, hash};
use crate::WorkloadError;
use crate::data::Record;

/// Places in a bucket.
const WAYS: usize = 4;
/// The smallest size: a sixth of a first-level cache.
const LEAST_BYTES: u64 = 8 << 10;
/// The largest size: two threads' shares of a last-level cache.
const LARGEST_BYTES: u64 = 16 << 20;
/// How many records ahead buckets are fetched: about the latency of a last-level cache.
const AHEAD: usize = 16;

/// The mark of a way without a key.
const FREE: u64 = 0;

/// The mark of a key, which must be below `u64::MAX`.
const fn mark(key: u64) -> u64 {
    key.wrapping_add(1)
}

/// What has been gathered of one group; empty by default.
pub trait Partial: Copy + Default {
    /// Takes in a value; there is room for it.
    fn add(&mut self, value: u64);
    /// Whether there is no room for another one.
    fn is_full(&self) -> bool;
    /// Whether there is nothing in it.
    fn is_empty(&self) -> bool;
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Bucket<P> {
    stored: [u64; WAYS],
    partials: [P; WAYS],
}

/// Partial results of one thread.
#[derive(Debug)]
pub struct Preaggregation<P> {
    buckets: Vec<Bucket<P>>,
    /// How many ways have made room; the next one is chosen by turns.
    displaced: usize,
}

/// Number of buckets for `estimate` groups.
fn buckets<P>(estimate: u64) -> u64 {
    let bucket = size_of::<Bucket<P>>() as u64;
    let (least, largest) = (LEAST_BYTES / bucket, LARGEST_BYTES / bucket);
    // Half full, few buckets have more keys than ways.
    match estimate.div_ceil(WAYS as u64 / 2) {
        all if all > largest => least,
        all => all.max(least).next_power_of_two(),
    }
}

/// What a [`Preaggregation`] for `estimate` groups takes.
#[must_use]
pub fn bytes<P>(estimate: u64) -> u64 {
    buckets::<P>(estimate) * size_of::<Bucket<P>>() as u64
}

impl<P: Partial> Preaggregation<P> {
    /// Memory for `estimate` groups, not yet touched: see [`Preaggregation::touch`].
    ///
    /// # Errors
    /// [`WorkloadError::Malloc`].
    pub fn new(estimate: u64) -> Result<Self, WorkloadError> {
        let mut empty = Vec::new();
        empty.try_reserve_exact(buckets::<P>(estimate) as usize).map_err(|_| {
            WorkloadError::Malloc {
                what: "a thread's partial results",
                bytes: bytes::<P>(estimate),
            }
        })?;
        Ok(Self { buckets: empty, displaced: 0 })
    }

    /// Makes it ready for use, in the thread that will use it and on that thread's node.
    pub fn touch(&mut self) {
        // The capacity of a vector may be more than what was asked for.
        let length = 1 << self.buckets.capacity().ilog2();
        self.buckets.resize(length, Bucket::default());
    }

    /// Takes in records; at most one partial result leaves for each.
    #[inline]
    pub fn add(&mut self, records: &[Record], mut leave: impl FnMut(Lookup<P>)) {
        let Self { buckets, displaced } = self;
        let mask = buckets.len() - 1;
        for (i, &Record { key, value }) in records.iter().enumerate() {
            if let Some(ahead) = records.get(i + AHEAD) {
                prefetch::for_write(&buckets[hash(ahead.key) as usize & mask]);
            }
            // The shared table takes the high bits.
            let hash = hash(key);
            let bucket = &mut buckets[hash as usize & mask];
            let way = bucket.way(mark(key)).unwrap_or_else(|| {
                let (way, old) = bucket.make_room(key, *displaced);
                if let Some(old) = old {
                    *displaced += 1;
                    leave(old);
                }
                way
            });
            let partial = &mut bucket.partials[way];
            partial.add(value);
            if partial.is_full() {
                leave(Lookup { key, hash, payload: mem::take(partial) });
            }
        }
    }

    /// Empties it.
    pub fn drain(self, leave: impl FnMut(Lookup<P>)) {
        let ways = |bucket: Bucket<P>| bucket.stored.into_iter().zip(bucket.partials);
        self.buckets.into_iter().flat_map(ways).filter_map(lookup).for_each(leave);
    }
}

impl<P: Partial> Bucket<P> {
    /// The way with this mark. Without a branch per way, which could not be foretold.
    #[inline]
    fn way(&self, wanted: u64) -> Option<usize> {
        let mut found = WAYS;
        for (way, &stored) in self.stored.iter().enumerate() {
            found = if stored == wanted { way } else { found };
        }
        (found < WAYS).then_some(found)
    }

    /// Gives `key` a free way, or else the one whose turn it is and what was there.
    #[inline]
    fn make_room(&mut self, key: u64, turn: usize) -> (usize, Option<Lookup<P>>) {
        let way = self.way(FREE).unwrap_or(turn % WAYS);
        let stored = mem::replace(&mut self.stored[way], mark(key));
        (way, lookup((stored, mem::take(&mut self.partials[way]))))
    }
}

/// What leaves a way, if there is anything in it.
fn lookup<P: Partial>((stored, payload): (u64, P)) -> Option<Lookup<P>> {
    // A way whose partial result has left full keeps its key.
    let key = stored.wrapping_sub(1);
    (stored != FREE && !payload.is_empty()).then(|| Lookup { key, hash: hash(key), payload })
}
