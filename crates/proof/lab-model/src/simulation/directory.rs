//! Who has which line: for every line in a last-level cache, the CPUs that may have copies
//! and whether one of them has changed it.
//!
//! Sets of seven entries behind a lock each, so that what happens to one line happens in
//! one order. Two host cache lines make a set: lock and keys, then the holders.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

const WAYS: usize = 7;
/// Attempts at a lock before the holder is taken for asleep: on a host with fewer cores
/// than the guest it may be.
const SPINS: u32 = 100;

/// A line's holders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    /// CPUs that may have copies in private caches; their last-level caches have one.
    pub cpus: u64,
    /// Memory has an old value.
    pub modified: bool,
}

#[derive(Debug)]
#[repr(align(64))]
struct Set {
    lock: AtomicU64,
    /// `line << 1 | modified`, 0 when free.
    keys: [AtomicU64; WAYS],
    holders: [AtomicU64; WAYS],
    /// Next to leave when all are taken.
    hand: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Directory {
    sets: Box<[Set]>,
}

/// One set, locked.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    set: &'a Set,
}

impl Directory {
    /// A directory for so many lines, with room for twice as many.
    pub(crate) fn new(lines: usize) -> Self {
        let sets = (lines * 2).div_ceil(WAYS).next_power_of_two();
        let atomics = || std::array::from_fn(|_| AtomicU64::new(0));
        let set = |_| Set {
            lock: AtomicU64::new(0),
            keys: atomics(),
            holders: atomics(),
            hand: AtomicU64::new(0),
        };
        Self { sets: (0..sets).map(set).collect() }
    }

    fn set(&self, line: u64) -> &Set {
        // Neighbouring lines go to different sets, regular strides do not pile up.
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.sets[hash as usize & (self.sets.len() - 1)]
    }

    /// Brings the set of a line into the host's caches while there is other work: it is asked
    /// for in an order that no prefetcher follows.
    #[inline]
    pub(crate) fn prepare(&self, line: u64) {
        let set = self.set(line);
        black_box((set.lock.load(Ordering::Relaxed), set.hand.load(Ordering::Relaxed)));
    }

    /// Locks the set of a line.
    pub(crate) fn lock(&self, line: u64) -> Locked<'_> {
        let set = self.set(line);
        let mut spins = 0;
        while set.lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        Locked { set }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.set.lock.store(0, Ordering::Release);
    }
}

impl Locked<'_> {
    /// The holders of a line.
    pub(crate) fn get(&self, line: u64) -> Holders {
        match self.way(line) {
            Some(way) => Holders {
                cpus: self.set.holders[way].load(Ordering::Relaxed),
                modified: self.set.keys[way].load(Ordering::Relaxed) & 1 != 0,
            },
            None => Holders::default(),
        }
    }

    /// Changes the holders of a line; without CPUs, forgets it. When there is no room for
    /// it, another line leaves: nobody may keep a copy of that.
    pub(crate) fn set(&self, line: u64, holders: Holders) -> Option<(u64, Holders)> {
        let (way, left) = match self.way(line).or_else(|| self.way(0).filter(|_| line != 0)) {
            Some(way) => (way, None),
            None if holders.cpus == 0 => return None,
            None => {
                let way = self.set.hand.fetch_add(1, Ordering::Relaxed) as usize % WAYS;
                let key = self.set.keys[way].load(Ordering::Relaxed);
                let cpus = self.set.holders[way].load(Ordering::Relaxed);
                (way, Some((key >> 1, Holders { cpus, modified: key & 1 != 0 })))
            }
        };
        let key = if holders.cpus == 0 { 0 } else { line << 1 | u64::from(holders.modified) };
        self.set.keys[way].store(key, Ordering::Relaxed);
        self.set.holders[way].store(holders.cpus, Ordering::Relaxed);
        left
    }

    fn way(&self, line: u64) -> Option<usize> {
        self.set.keys.iter().position(|key| key.load(Ordering::Relaxed) >> 1 == line)
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
                let locked = directory.lock(line);
                prop_assert_eq!(locked.get(line), map.get(&line).copied().unwrap_or_default());
                let holders = Holders { cpus, modified: modified && cpus != 0 };
                if let Some((left, was)) = locked.set(line, holders) {
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
                        let locked = directory.lock(9);
                        let cpus = locked.get(9).cpus + 1;
                        locked.set(9, Holders { cpus, modified: false });
                    }
                });
            }
        });
        assert_eq!(directory.lock(9).get(9).cpus, 3 * turns);
    }
}
