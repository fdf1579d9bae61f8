//! Look-ups that are collected, so that their cache misses overlap.
//!
//! (Group prefetching: Chen, Ailamaki, Gibbons, Mowry: "Improving hash join performance
//! through prefetching", ICDE 2004; here plain loads do the prefetching.)

use super::{Entry, View};

/// Look-ups made together.
pub const BATCH: usize = 64;

/// A key to look up, with the payload for its entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup<P> {
    /// The key.
    pub key: u64,
    /// Returned with the entry.
    pub payload: P,
}

/// Up to [`BATCH`] look-ups.
#[derive(Debug)]
pub struct Batch<P> {
    lookups: [Lookup<P>; BATCH],
    length: usize,
}

impl<P: Copy + Default> Batch<P> {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self { lookups: [Lookup::default(); BATCH], length: 0 }
    }

    /// Adds a look-up. Returns true when the batch is now full and must be resolved.
    #[inline]
    #[must_use]
    pub fn push(&mut self, lookup: Lookup<P>) -> bool {
        self.lookups[self.length % BATCH] = lookup;
        self.length += 1;
        self.length == BATCH
    }

    /// Finds or claims all keys, and empties the batch.
    #[inline]
    pub fn resolve(&mut self, view: &View<'_>, mut found: impl FnMut(Entry<'_>, Lookup<P>)) {
        let lookups = &self.lookups[..self.length.min(BATCH)];
        let mut homes = [(0, 0); BATCH];
        for (home, lookup) in homes.iter_mut().zip(lookups) {
            let at = view.home(lookup.key);
            // All these loads are in flight at the same time.
            *home = (at, view.stored(at));
        }
        for (&(home, stored), lookup) in homes.iter().zip(lookups) {
            found(view.entry(lookup.key, home, stored), *lookup);
        }
        self.length = 0;
    }
}

impl<P: Copy + Default> Default for Batch<P> {
    fn default() -> Self {
        Self::new()
    }
}
