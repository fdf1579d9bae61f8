//! The directory: for every line in a last-level cache, the CPUs that may have copies, and whether
//! one of them has modified it.
//!
//! It is set-associative, with five entries per set. A set is one cache line of the host, because
//! the host's miss on the set is most of the cost of simulating a miss.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use numapilot_sys::prefetch;

const WAYS: usize = 5;
/// Number of distinct lines: those of 256 GiB.
pub(crate) const LINES: u64 = 1 << 32;
/// First of the state's bits, one for each way, that mark memory as outdated.
const MODIFIED_SHIFT: usize = 0;
/// Start of the state's counter: the next victim when all ways are used.
const HAND_SHIFT: u32 = 8;

/// The holders of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    /// CPUs that may have copies in private caches; their last-level caches have one.
    pub cpus: u64,
    /// Whether memory is outdated.
    pub modified: bool,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set {
    state: AtomicU32,
    keys: [AtomicU32; WAYS],
    /// CPUs; 0 if the way is free.
    holders: [AtomicU64; WAYS],
}

/// The directory; see the module documentation.
#[derive(Debug)]
pub(crate) struct Directory {
    sets: Box<[Set]>,
}

/// The entry of a line, if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    set: &'a Set,
    line: u64,
}

/// The directory's record of a line.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    set: &'a Set,
    line: u64,
    /// The line's way.
    way: Option<usize>,
}

impl Directory {
    /// A directory for `lines` lines, with space for at least two and a half times as many, because
    /// they do not spread evenly. It is not larger, because it should fit the host's caches.
    pub(crate) fn new(lines: usize) -> Self {
        let sets = lines.div_ceil(2).next_power_of_two();
        Self { sets: (0..sets).map(|_| Set::default()).collect() }
    }

    /// The entry of a line.
    #[inline]
    pub(crate) fn entry(&self, line: u64) -> Entry<'_> {
        // Neighbouring lines map to different sets, and regular strides do not collide.
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

    /// Prefetches the set into the host's caches during other work. Accesses come in an order that
    /// no hardware prefetcher follows.
    #[inline]
    pub(crate) fn prepare(&self) {
        prefetch::for_write(self.set);
    }

    /// The record of the line.
    #[inline]
    pub(crate) fn record(self) -> Record<'a> {
        let Self { set, line } = self;
        Record { set, line, way: set.way(line) }
    }
}

impl Record<'_> {
    /// The holders of the line.
    pub(crate) fn get(&self) -> Holders {
        self.way.map(|way| self.holders(way)).unwrap_or_default()
    }

    /// Sets the holders of the line; without CPUs, removes it. If there is no space, returns
    /// another line that was removed, of which no cache may keep a copy.
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
        let state = self.set.state.load(Ordering::Relaxed);
        let state = if holders.modified { state | bit } else { state & !bit };
        self.set.state.store(state, Ordering::Relaxed);
        self.set.keys[way].store(self.line as u32, Ordering::Relaxed);
        self.set.holders[way].store(holders.cpus, Ordering::Relaxed);
        self.way = (holders.cpus != 0).then_some(way);
        left
    }

    fn next_to_leave(&mut self) -> usize {
        let state = self.set.state.load(Ordering::Relaxed);
        self.set.state.store(state.wrapping_add(1 << HAND_SHIFT), Ordering::Relaxed);
        (state >> HAND_SHIFT) as usize % WAYS
    }

    fn holders(&self, way: usize) -> Holders {
        Holders {
            cpus: self.set.holders[way].load(Ordering::Relaxed),
            modified: self.set.state.load(Ordering::Relaxed) >> (MODIFIED_SHIFT + way) & 1 != 0,
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
                let mut record = directory.entry(line).record();
                prop_assert_eq!(record.get(), map.get(&line).copied().unwrap_or_default());
                let holders = Holders { cpus, modified: modified && cpus != 0 };
                if let Some((left, was)) = record.set(holders) {
                    prop_assert_eq!(map.remove(&left), Some(was));
                }
                if cpus == 0 { map.remove(&line); } else { map.insert(line, holders); }
            }
        }
    }
}
