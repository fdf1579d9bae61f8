//! Who has which line: for every line in a last-level cache, the CPUs that may have copies
//! and whether one of them has changed it.
//!
//! Sets of five entries behind a lock each, so that what happens to one line happens in
//! one order. A set is one host cache line: finding it is most of what a miss costs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use numapilot_sys::prefetch;

const WAYS: usize = 5;
/// Lines that a key can tell apart: those of 256 GiB.
pub(crate) const LINES: u64 = 1 << 32;
/// Attempts at a lock before the holder is taken for asleep: on a host with fewer cores
/// than the guest it may be.
const SPINS: u32 = 100;

/// Bit of the state: somebody is at it.
const LOCKED: u32 = 1;
/// From this bit of the state on, one for each way: memory has an old value.
const MODIFIED_SHIFT: usize = 1;
/// From this bit on, a count: the next way to leave when all are taken.
const HAND_SHIFT: u32 = 8;

/// A line's holders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    /// CPUs that may have copies in private caches; their last-level caches have one.
    pub cpus: u64,
    /// Memory has an old value.
    pub modified: bool,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set {
    state: AtomicU32,
    keys: [AtomicU32; WAYS],
    /// CPUs, none when the way is free.
    holders: [AtomicU64; WAYS],
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Directory {
    sets: Box<[Set]>,
}

/// Where a line is, if anywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    set: &'a Set,
    line: u64,
}

/// The set of a line, locked.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    set: &'a Set,
    line: u64,
    /// Where the line is.
    way: Option<usize>,
    /// What the set's state will be when it is free again: nobody else changes it until then.
    state: u32,
}

impl Directory {
    /// A directory for so many lines, with room for two and a half times as many at least:
    /// they do not spread evenly. Not for more, since it should fit the host's caches.
    pub(crate) fn new(lines: usize) -> Self {
        let sets = lines.div_ceil(2).next_power_of_two();
        Self { sets: (0..sets).map(|_| Set::default()).collect() }
    }

    /// The entry of a line.
    #[inline]
    pub(crate) fn entry(&self, line: u64) -> Entry<'_> {
        // Neighbouring lines go to different sets, regular strides do not pile up.
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Entry { set: &self.sets[hash as usize & (self.sets.len() - 1)], line }
    }
}

impl<'a> Entry<'a> {
    /// The line.
    #[inline]
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Brings the set into the host's caches while there is other work: it is asked for in an
    /// order that no prefetcher follows.
    #[inline]
    pub(crate) fn prepare(&self) {
        prefetch::for_write(self.set);
    }

    /// Locks the set.
    #[inline]
    pub(crate) fn lock(self) -> Locked<'a> {
        let Self { set, line } = self;
        let mut spins = 0;
        loop {
            let free = set.state.load(Ordering::Relaxed) & !LOCKED;
            let (locked, success) = (free | LOCKED, Ordering::Acquire);
            if set.state.compare_exchange_weak(free, locked, success, Ordering::Relaxed).is_ok() {
                return Locked { set, line, way: set.way(line), state: free };
            }
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.set.state.store(self.state, Ordering::Release);
    }
}

impl Locked<'_> {
    /// The holders of the line.
    pub(crate) fn get(&self) -> Holders {
        self.way.map(|way| self.holders(way)).unwrap_or_default()
    }

    /// Changes the holders of the line; without CPUs, forgets it. When there is no room for
    /// it, another line leaves: nobody may keep a copy of that.
    pub(crate) fn set(&mut self, holders: Holders) -> Option<(u64, Holders)> {
        let (way, left) = match self.way.or_else(|| self.set.free_way()) {
            Some(way) => (way, None),
            None if holders.cpus == 0 => return None,
            None => {
                let way = self.next_to_leave();
                let key = self.set.keys[way].load(Ordering::Relaxed);
                (way, Some((u64::from(key), self.holders(way))))
            }
        };
        let bit = 1 << (MODIFIED_SHIFT + way);
        self.state = if holders.modified { self.state | bit } else { self.state & !bit };
        self.set.keys[way].store(self.line as u32, Ordering::Relaxed);
        self.set.holders[way].store(holders.cpus, Ordering::Relaxed);
        self.way = (holders.cpus != 0).then_some(way);
        left
    }

    fn next_to_leave(&mut self) -> usize {
        let hand = self.state >> HAND_SHIFT;
        self.state = self.state.wrapping_add(1 << HAND_SHIFT);
        hand as usize % WAYS
    }

    fn holders(&self, way: usize) -> Holders {
        Holders {
            cpus: self.set.holders[way].load(Ordering::Relaxed),
            modified: self.state >> (MODIFIED_SHIFT + way) & 1 != 0,
        }
    }
}

impl Set {
    fn way(&self, line: u64) -> Option<usize> {
        (0..WAYS).find(|way| {
            self.keys[*way].load(Ordering::Relaxed) == line as u32
                && self.holders[*way].load(Ordering::Relaxed) != 0
        })
    }

    fn free_way(&self) -> Option<usize> {
        self.holders.iter().position(|cpus| cpus.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_that_may_forget_what_it_names(
            steps in proptest::collection::vec((1u64..60, 0u64..4, any::<bool>()), 1..300),
        ) {
            let directory = Directory::new(16);
            let mut map: BTreeMap<u64, Holders> = BTreeMap::new();
            for (line, cpus, modified) in steps {
                let mut locked = directory.entry(line).lock();
                prop_assert_eq!(locked.get(), map.get(&line).copied().unwrap_or_default());
                let holders = Holders { cpus, modified: modified && cpus != 0 };
                if let Some((left, was)) = locked.set(holders) {
                    prop_assert_eq!(map.remove(&left), Some(was));
                }
                if cpus == 0 { map.remove(&line); } else { map.insert(line, holders); }
            }
        }
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let directory = Directory::new(1);
        let turns = 20_000;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..turns {
                        let mut locked = directory.entry(9).lock();
                        let cpus = locked.get().cpus + 1;
                        locked.set(Holders { cpus, modified: false });
                    }
                });
            }
        });
        assert_eq!(directory.entry(9).lock().get().cpus, 3 * turns);
    }
}
