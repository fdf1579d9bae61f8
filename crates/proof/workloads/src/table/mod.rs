//! The hash table that all threads share: it maps 64-bit keys to one 64-bit word each.
//!
//! It uses open addressing with double hashing over an array of atomic (key, word) pairs. One
//! compare-and-swap claims a key, which then never moves or disappears. Finding a key therefore
//! takes no lock, and atomic operations update words in place. Four pairs share a cache line;
//! neighbouring keys are next to each other ([`home()`]).
//!
//! ```text
//!   home(key)        home(key) + step(key)
//!     v                v
//!   | k w | k w | - - | k w |      k = key + 1, 0 = free
//! ```
//!
//! The array doubles when it is half full. Only at that moment must the threads be out of it: they
//! work under a [`View`], a read lock held for at most [`CHUNK`] records. The array comes zeroed
//! from `calloc` and therefore consists of fresh pages. Each page lies on the node of the thread
//! that first puts a key there.

mod batch;
mod home;
pub mod preaggregation;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

pub use self::batch::{BATCH, Batch, Lookup};
use self::home::step;
pub use self::home::{hash, home};
use crate::WorkloadError;

/// The most keys that may be claimed under one [`View`].
pub const CHUNK: usize = 1024;

/// Key plus one, and the word.
type Slot = [AtomicU64; 2];

/// The table.
#[derive(Debug)]
pub struct Table {
    slots: RwLock<Box<[Slot]>>,
    /// Number of keys claimed by views that have been dropped.
    claimed: AtomicUsize,
}

impl Table {
    /// A table for `estimate` keys and `threads` views at the same time. It grows when there are
    /// more keys.
    ///
    /// # Errors
    /// [`WorkloadError::Malloc`].
    pub fn new(estimate: u64, threads: usize) -> Result<Self, WorkloadError> {
        // At most half full when a view begins, and at most three quarters full when every thread
        // has claimed a whole chunk after that, so probing always ends.
        let least = (4 * CHUNK * threads) as u64;
        let slots = estimate.saturating_mul(2).max(least).checked_next_power_of_two();
        let malloc = || WorkloadError::Malloc {
            what: "the hash table",
            bytes: estimate.saturating_mul(2 * size_of::<Slot>() as u64),
        };
        let slots = slots.and_then(|n| usize::try_from(n).ok()).ok_or_else(malloc)?;
        let slots = bytemuck::try_zeroed_slice_box(slots).map_err(|()| malloc())?;
        Ok(Self { slots: RwLock::new(slots), claimed: AtomicUsize::new(0) })
    }

    /// Access for at most [`CHUNK`] new keys. Growing waits for all views to be dropped.
    pub fn view(&self) -> View<'_> {
        loop {
            let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
            if self.claimed.load(Ordering::Relaxed) <= slots.len() / 2 {
                let bits = slots.len().trailing_zeros();
                return View { slots, bits, claimed: Cell::new(0), table: self };
            }
            drop(slots);
            self.grow();
        }
    }

    fn grow(&self) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        // Several threads may have found it too full; the first one grows it for all.
        if self.claimed.load(Ordering::Relaxed) <= slots.len() / 2 {
            return;
        }
        let mut grown: Box<[Slot]> = bytemuck::zeroed_slice_box(slots.len() * 2);
        let (mask, bits) = (grown.len() - 1, grown.len().trailing_zeros());
        for slot in &mut *slots {
            let (stored, word) = (*slot[0].get_mut(), *slot[1].get_mut());
            if stored != 0 {
                let key = stored.wrapping_sub(1);
                let mut at = home(key, bits);
                while *grown[at][0].get_mut() != 0 {
                    at = at.wrapping_add(step(key)) & mask;
                }
                grown[at] = [AtomicU64::new(stored), AtomicU64::new(word)];
            }
        }
        *slots = grown;
    }
}

/// The table during a time in which no thread may grow it.
#[derive(Debug)]
pub struct View<'table> {
    slots: RwLockReadGuard<'table, Box<[Slot]>>,
    /// Logarithm of the number of slots.
    bits: u32,
    claimed: Cell<usize>,
    table: &'table Table,
}

/// The word of a key, and whether this call claimed the key.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'view> {
    /// 0 at first.
    pub word: &'view AtomicU64,
    /// True for exactly one of all calls with this key.
    pub new: bool,
}

impl View<'_> {
    /// The first slot in the search for a key.
    #[inline]
    #[must_use]
    pub fn home(&self, key: u64) -> usize {
        home(key, self.bits)
    }

    /// The contents of slot `home`: a hint for [`View::entry`]. The load also brings the slot into
    /// the cache.
    #[must_use]
    pub fn stored(&self, home: usize) -> u64 {
        self.slots[home][0].load(Ordering::Relaxed)
    }

    /// Finds `key`, which must be below `u64::MAX`, or claims a slot for it. `stored` is an earlier
    /// result of [`View::stored`] for its `home`.
    #[inline]
    pub fn entry(&self, key: u64, home: usize, stored: u64) -> Entry<'_> {
        debug_assert!(key != u64::MAX, "this key stands for a free slot");
        let wanted = key.wrapping_add(1);
        // A slot keeps its key once it is taken.
        if stored == wanted {
            return Entry { word: &self.slots[home][1], new: false };
        }
        self.probe(wanted, home)
    }

    fn probe(&self, wanted: u64, home: usize) -> Entry<'_> {
        let mut at = home;
        loop {
            let [stored, word] = &self.slots[at];
            let mut found = stored.load(Ordering::Relaxed);
            if found == 0 {
                let claim =
                    stored.compare_exchange(0, wanted, Ordering::Relaxed, Ordering::Relaxed);
                match claim {
                    Ok(_) => {
                        self.claimed.set(self.claimed.get() + 1);
                        return Entry { word, new: true };
                    }
                    Err(other) => found = other,
                }
            }
            if found == wanted {
                return Entry { word, new: false };
            }
            at = at.wrapping_add(step(wanted.wrapping_sub(1))) & (self.slots.len() - 1);
        }
    }

    /// Number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Always false: every table has slots.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Key and word of the taken slots in `range`.
    pub fn iter(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = (u64, u64)> {
        self.slots[range].iter().filter_map(|[stored, word]| {
            let stored = stored.load(Ordering::Relaxed);
            (stored != 0).then(|| (stored.wrapping_sub(1), word.load(Ordering::Relaxed)))
        })
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if self.claimed.get() > 0 {
            self.table.claimed.fetch_add(self.claimed.get(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    fn find<'v>(view: &'v View<'_>, key: u64) -> Entry<'v> {
        let home = view.home(key);
        view.entry(key, home, view.stored(home))
    }

    fn count(table: &Table, keys: &[u64]) {
        for chunk in keys.chunks(CHUNK) {
            let view = table.view();
            for &key in chunk {
                find(&view, key).word.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn contents(table: &Table) -> HashMap<u64, u64> {
        let view = table.view();
        let contents: Vec<_> = view.iter(0..view.len()).collect();
        let map: HashMap<_, _> = contents.iter().copied().collect();
        assert_eq!(map.len(), contents.len(), "a key is in the table twice");
        map
    }

    #[test]
    fn it_grows_under_concurrent_claims() {
        let table = Table::new(1, 4).unwrap();
        let before = table.view().len();
        thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                // All threads claim all keys, each beginning with a different one.
                scope.spawn(move || {
                    let keys: Vec<_> =
                        (0..100_000).map(|i| (i + thread * 25_000) % 100_000).collect();
                    count(table, &keys);
                });
            }
        });
        assert!(table.view().len() > before);
        let contents = contents(&table);
        assert_eq!(contents.len(), 100_000);
        assert!(contents.values().all(|&n| n == 4));
    }

    #[test]
    fn a_key_is_new_once() {
        let table = Table::new(10, 1).unwrap();
        let view = table.view();
        assert!(find(&view, 7).new);
        assert!(!find(&view, 7).new);
    }

    #[test]
    fn an_impossible_size_is_refused() {
        assert!(Table::new(u64::MAX, 1).is_err());
        assert!(Table::new(1 << 58, 1).is_err());
    }

    proptest! {
        #[test]
        fn it_counts_like_a_map(keys in prop::collection::vec(0..u64::MAX, 0..3_000), modulus in 1u64..5_000) {
            let keys: Vec<u64> = keys.iter().flat_map(|k| [*k, k % modulus]).collect();
            let table = Table::new(1, 1).unwrap();
            count(&table, &keys);
            let mut expected = HashMap::new();
            for key in keys {
                *expected.entry(key).or_insert(0) += 1;
            }
            prop_assert_eq!(contents(&table), expected);
        }
    }
}
