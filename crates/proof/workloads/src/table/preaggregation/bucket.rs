//! A bucket holds a few keys, and what was collected for each.

use std::mem;

use super::Run;
use crate::table::{Lookup, hash};

/// Keys of a bucket.
pub const WAYS: usize = 4;

/// The mark of a way without a key.
const FREE: u64 = 0;

/// The mark of a key, which must be below `u64::MAX`.
const fn mark(key: u64) -> u64 {
    key.wrapping_add(1)
}

const fn own_way(key: u64) -> usize {
    let ways = WAYS as u64;
    (key.wrapping_add(hash(key / ways)) % ways) as usize
}

/// The values collected for each key. They are apart from the buckets and are only written to. The
/// buckets are then so close together that the CPU's TLB covers most of their pages.
pub type Values<const N: usize> = [[u64; N]; WAYS];

/// Marks and numbers of records, which determine where a value goes, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Bucket {
    marks: [u64; WAYS],
    lengths: [u64; WAYS],
}

impl Bucket {
    /// All ways free.
    pub const EMPTY: Self = Self { marks: [FREE; WAYS], lengths: [0; WAYS] };

    /// The way of `key`, if it has one.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        self.marked(mark(key))
    }

    /// Has no branch per way, which would be unpredictable.
    #[inline]
    fn marked(&self, wanted: u64) -> Option<usize> {
        let ways = self.marks.iter().enumerate();
        let found = ways.fold(0, |found, (way, &mark)| found | u32::from(mark == wanted) << way);
        (found != 0).then_some(found.trailing_zeros() as usize % WAYS)
    }

    /// Gives `key` a free way, or else its own way. Returns the previous contents. Neighbouring
    /// keys, which reach a bucket together, have different ways of their own and stay together.
    #[inline]
    pub fn make_room<const N: usize>(
        &mut self,
        key: u64,
        values: &Values<N>,
    ) -> (usize, Option<Lookup<Run<N>>>) {
        let way = self.marked(FREE).unwrap_or_else(|| own_way(key));
        let old = self.take_run(way, values);
        self.marks[way] = mark(key);
        (way, old)
    }

    /// Adds a value to a way. Returns the way's values when it is full.
    #[inline]
    pub fn add<const N: usize>(
        &mut self,
        way: usize,
        value: u64,
        values: &mut Values<N>,
    ) -> Option<Run<N>> {
        let length = &mut self.lengths[way];
        // Without room for values only the lengths count, and they have no limit.
        if let Some(place) = values[way].get_mut(*length as usize) {
            *place = value;
        }
        *length += 1;
        let full = N > 0 && *length == N as u64;
        full.then(|| Run { length: mem::take(length), values: values[way] })
    }

    /// The values of a way, if any. Its key stays until another key needs the way.
    #[inline]
    pub fn take_run<const N: usize>(
        &mut self,
        way: usize,
        values: &Values<N>,
    ) -> Option<Lookup<Run<N>>> {
        let length = mem::take(&mut self.lengths[way]);
        let key = self.marks[way].wrapping_sub(1);
        let payload = Run { length, values: values[way] };
        (length > 0).then_some(Lookup { key, payload })
    }
}
