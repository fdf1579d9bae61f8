//! Places for a few keys, and what has been gathered of each.

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

/// Marks and lengths share a cache line, which decides where a value goes.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Bucket<const N: usize> {
    marks: [u64; WAYS],
    lengths: [u64; WAYS],
    values: [[u64; N]; WAYS],
}

impl<const N: usize> Bucket<N> {
    /// All ways free.
    pub const EMPTY: Self =
        Self { marks: [FREE; WAYS], lengths: [0; WAYS], values: [[0; N]; WAYS] };

    /// The way of `key`, if it has one.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        self.marked(mark(key))
    }

    /// Without a branch per way, which could not be foretold.
    #[inline]
    fn marked(&self, wanted: u64) -> Option<usize> {
        let mut found = WAYS;
        for (way, &mark) in self.marks.iter().enumerate() {
            found = if mark == wanted { way } else { found };
        }
        (found < WAYS).then_some(found)
    }

    /// Gives `key` a free way, or else the one whose turn it is; returns what was there.
    #[inline]
    pub fn make_room(&mut self, key: u64, turn: usize) -> (usize, Option<Lookup<Run<N>>>) {
        let way = self.marked(FREE).unwrap_or(turn % WAYS);
        let old = self.take(way);
        self.marks[way] = mark(key);
        (way, old)
    }

    /// Adds a value to what a way has gathered; returns that when it is full.
    #[inline]
    pub fn add(&mut self, way: usize, value: u64) -> Option<Run<N>> {
        let length = &mut self.lengths[way];
        // Without room for values there are only lengths, and no end of them.
        if let Some(place) = self.values[way].get_mut(*length as usize) {
            *place = value;
        }
        *length += 1;
        let full = N > 0 && *length == N as u64;
        full.then(|| Run { length: mem::take(length), values: self.values[way] })
    }

    /// What a way has gathered, if anything. Its key stays until another one needs the way.
    #[inline]
    pub fn take(&mut self, way: usize) -> Option<Lookup<Run<N>>> {
        let length = mem::take(&mut self.lengths[way]);
        let key = self.marks[way].wrapping_sub(1);
        let payload = Run { length, values: self.values[way] };
        (length > 0).then(|| Lookup { key, hash: hash(key), payload })
    }
}
