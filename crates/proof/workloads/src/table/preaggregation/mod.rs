//! A thread's own aggregation, before records reach the table that all threads share.
//!
//! A set-associative cache of groups. A key may be in any way of its bucket; when all are taken,
//! one of them is evicted. The evicted entry is a [`Run`] of at least one record. Keys that occur
//! often or close together therefore reach the shared table, with its atomic operations and its
//! contended cache lines, once per run instead of once per record. (Cieslewicz, Ross: "Adaptive
//! aggregation on chip multiprocessors", VLDB 2007.)
//!
//! ```text
//!   home(key / 4): neighbours share a bucket
//!     v
//!   | m m m m  n n n n |   | v.. v.. v.. v.. |     m = key + 1, 0 = free
//!   | m m m m  n n n n |   | v.. v.. v.. v.. |     n = number of records, v = their values
//! ```
//!
//! At first it fits into a first-level cache, which is enough for keys that arrive close together.
//! If that is not enough, it grows once, to hold all groups, if this takes at most `LARGEST_BYTES`.
//! If it took more, the cache would miss too often to be worth its own misses. Then most records
//! bypass it, and the others show whether it pays again.

mod bucket;
mod run;

use numapilot_sys::prefetch;

use self::bucket::{Bucket, Values, WAYS};
pub use self::run::Run;
use super::{Lookup, home};
use crate::WorkloadError;
use crate::data::Record;

/// The initial size: a sixth of a first-level cache.
const LEAST_BYTES: u64 = 8 << 10;
/// The largest size: several threads' shares of a last-level cache.
const LARGEST_BYTES: u64 = 16 << 20;
/// How many calls bypass the cache after one in which it was useless.
const PASSES: u32 = 15;
/// How many records ahead buckets are prefetched: about the latency of a last-level cache.
const AHEAD: usize = 16;

/// One thread's runs.
#[derive(Debug)]
pub struct Preaggregation<const N: usize> {
    buckets: Vec<Bucket>,
    /// As many as there are buckets.
    values: Vec<Values<N>>,
    /// The number of buckets after it has grown.
    largest: usize,
    /// How many ways were evicted.
    displaced: usize,
    /// Whether most of the latest records caused an eviction.
    crowded: bool,
    /// How many more calls bypass the cache.
    passes: u32,
}

const fn bucket_bytes<const N: usize>() -> u64 {
    (size_of::<Bucket>() + size_of::<Values<N>>()) as u64
}

/// Number of buckets for `estimate` groups.
fn buckets<const N: usize>(estimate: u64) -> u64 {
    let bucket = bucket_bytes::<N>();
    let (least, largest) = (LEAST_BYTES / bucket, LARGEST_BYTES / bucket);
    // When half full, few buckets have more keys than ways.
    match estimate.div_ceil(WAYS as u64 / 2) {
        all if all > largest => least,
        all => all.max(least).next_power_of_two(),
    }
}

/// The size of a [`Preaggregation`] for `estimate` groups.
#[must_use]
pub fn bytes<const N: usize>(estimate: u64) -> u64 {
    buckets::<N>(estimate) * bucket_bytes::<N>()
}

impl<const N: usize> Preaggregation<N> {
    /// Memory for `estimate` groups, most of it still untouched.
    ///
    /// # Errors
    /// [`WorkloadError::Malloc`].
    pub fn new(estimate: u64) -> Result<Self, WorkloadError> {
        let largest = buckets::<N>(estimate) as usize;
        let (mut buckets, mut values) = (Vec::new(), Vec::new());
        let reserved = buckets.try_reserve_exact(largest);
        reserved.and_then(|()| values.try_reserve_exact(largest)).map_err(|_| {
            WorkloadError::Malloc { what: "the runs of a thread", bytes: bytes::<N>(estimate) }
        })?;
        let mut small = Self { buckets, values, largest, displaced: 0, crowded: false, passes: 0 };
        small.resize(self::buckets::<N>(0) as usize);
        Ok(small)
    }

    fn resize(&mut self, length: usize) {
        self.buckets.clear();
        self.buckets.resize(length, Bucket::EMPTY);
        self.values.resize(length, [[0; N]; WAYS]);
    }

    /// Whether it should be drained and then [grown](Preaggregation::grow).
    #[must_use]
    pub fn is_too_small(&self) -> bool {
        self.crowded && self.buckets.len() < self.largest
    }

    /// Grows to its largest size, empty. The calling thread touches the memory first.
    pub fn grow(&mut self) {
        self.resize(self.largest);
        self.crowded = false;
    }

    /// Adds records. Each record evicts at most one run.
    #[inline]
    pub fn add(&mut self, records: &[Record], mut leave: impl FnMut(Lookup<Run<N>>)) {
        if self.passes > 0 {
            self.passes -= 1;
            let single = |&Record { key, value }| Lookup { key, payload: Run::of(value) };
            records.iter().map(single).for_each(leave);
            return;
        }
        let before = self.displaced;
        self.gather(records, &mut leave);
        let displaced = self.displaced - before;
        self.crowded = displaced > records.len() / 2;
        if displaced > records.len() / 8 * 7 && self.buckets.len() >= self.largest {
            self.passes = PASSES;
        }
    }

    #[inline]
    fn gather(&mut self, records: &[Record], mut leave: impl FnMut(Lookup<Run<N>>)) {
        let Self { buckets, values, displaced, .. } = self;
        let bits = buckets.len().trailing_zeros();
        let bucket_of = |key| home(key / WAYS as u64, bits);
        let has_grown = buckets.len() > self::buckets::<N>(0) as usize;
        for (i, &Record { key, value }) in records.iter().enumerate() {
            if has_grown && let Some(ahead) = records.get(i + AHEAD) {
                prefetch::for_write(&buckets[bucket_of(ahead.key)]);
            }
            let at = bucket_of(key);
            let (bucket, values) = (&mut buckets[at], &mut values[at]);
            let way = bucket.find(key).unwrap_or_else(|| {
                let (way, old) = bucket.make_room(key, values);
                if let Some(old) = old {
                    *displaced += 1;
                    leave(old);
                }
                way
            });
            if let Some(payload) = bucket.add(way, value, values) {
                leave(Lookup { key, payload });
            }
        }
    }

    /// Evicts all runs.
    pub fn drain(&mut self, mut leave: impl FnMut(Lookup<Run<N>>)) {
        for (bucket, values) in self.buckets.iter_mut().zip(&self.values) {
            (0..WAYS).filter_map(|way| bucket.take_run(way, values)).for_each(&mut leave);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// The runs that leave when these records are added, by key, and their number.
    fn pass<const N: usize>(
        records: &[Record],
        estimate: u64,
    ) -> (HashMap<u64, (u64, Vec<u64>)>, usize) {
        let mut own = Preaggregation::<N>::new(estimate).unwrap();
        let mut out: HashMap<u64, (u64, Vec<u64>)> = HashMap::new();
        let mut runs = 0;
        let mut leave = |Lookup { key, payload, .. }: Lookup<Run<N>>| {
            assert!(payload.length() > 0, "an empty run of {key}");
            let (count, values) = out.entry(key).or_default();
            *count += payload.length();
            values.extend(payload.values());
            runs += 1;
        };
        for chunk in records.chunks(1_000) {
            if own.is_too_small() {
                own.drain(&mut leave);
                own.grow();
            }
            own.add(chunk, &mut leave);
        }
        own.drain(&mut leave);
        own.drain(|_| panic!("something was left after a drain"));
        (out, runs)
    }

    fn records(keys: impl IntoIterator<Item = u64>) -> Vec<Record> {
        keys.into_iter().zip(0..).map(|(key, value)| Record { key, value }).collect()
    }

    #[test]
    fn a_bucket_is_a_cache_line_and_its_values() {
        assert_eq!((bucket_bytes::<0>(), bucket_bytes::<6>()), (64, 256));
    }

    #[test]
    fn keys_that_come_close_together_are_gathered() {
        // 100 records of each key, 64 keys at a time.
        let keys = (0..100_000).map(|i| i / 6_400 * 64 + i % 64);
        // A few keys share their bucket with four others at the same time.
        let (_, runs) = pass::<0>(&records(keys.clone()), 1 << 40);
        assert!((1_000..1_200).contains(&runs), "{runs} runs");
        // 16 full runs, and one with the rest.
        let (_, runs) = pass::<6>(&records(keys), 1 << 40);
        assert!((17_000..18_500).contains(&runs), "{runs} runs");
    }

    #[test]
    fn it_grows_for_keys_that_come_back_late() {
        let keys = (0..200_000).map(|i| i % 20_000);
        let (_, runs) = pass::<0>(&records(keys.clone()), 20_000);
        // Once before it has grown, and then once; few buckets have more keys than ways.
        assert!(runs < 40_000, "{runs} runs");
        // Not if there is no room for all groups.
        assert!(pass::<0>(&records(keys), 1 << 40).1 > 190_000);
    }

    #[test]
    fn it_takes_a_power_of_two_of_buckets_up_to_a_limit() {
        assert_eq!(bytes::<0>(0), 8 << 10);
        assert_eq!(bytes::<6>(100_000), 16 << 20);
        assert_eq!(bytes::<6>(131_072), 16 << 20);
        assert_eq!(bytes::<6>(131_073), 8 << 10);
        assert_eq!(bytes::<0>(100_000), 4 << 20);
        assert_eq!(bytes::<0>(u64::MAX), 8 << 10);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(keys in prop::collection::vec(0..u64::MAX, 0..3_000), modulus in 1u64..5_000, estimate in 0u64..10_000) {
            let records = records(keys.iter().flat_map(|key| [*key, key % modulus]));
            let mut expected: HashMap<u64, Vec<u64>> = HashMap::new();
            for record in &records {
                expected.entry(record.key).or_default().push(record.value);
            }
            let counts: HashMap<_, _> = expected.iter().map(|(k, v)| (*k, (v.len() as u64, vec![]))).collect();
            prop_assert_eq!(pass::<0>(&records, estimate).0, counts);
            let values: HashMap<_, _> = expected.into_iter().map(|(k, v)| (k, (v.len() as u64, v))).collect();
            let mut gathered = pass::<6>(&records, estimate).0;
            // A record that bypasses the cache overtakes those in it.
            gathered.values_mut().for_each(|(_, values)| values.sort_unstable());
            prop_assert_eq!(gathered, values);
        }
    }
}
