//! The last level of cache, one or more of them, each used by several CPUs at once.
//!
//! Which lines are there the directory knows; this keeps the order in which they leave: a
//! clock, that is least recently used to within one round.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use numapilot_sys::prefetch;

use super::private::{Found, Sets};
use crate::model;

/// Bit 0 of a word: used since the hand passed.
const USED: u64 = 1;
/// Bit 1: the one CPU that uses this cache may write the line without asking. Never set in
/// a cache that several CPUs use.
const WRITABLE: u64 = 2;
/// The line is in the bits above.
const LINE_SHIFT: u32 = 2;

/// One cache of the last level. It includes the private caches of the CPUs that use it.
#[derive(Debug)]
pub(crate) struct LastLevel {
    sets: Sets,
    hands: Box<[AtomicU32]>,
}

impl LastLevel {
    pub(crate) fn new(cache: &model::Cache) -> Self {
        let sets = Sets::new(cache);
        let hands = (0..sets.count()).map(|_| AtomicU32::new(0)).collect();
        Self { sets, hands }
    }

    pub(crate) fn lines(&self) -> usize {
        self.sets.lines()
    }

    /// Brings the set of a line into the host's caches while there is other work.
    #[inline]
    pub(crate) fn prepare(&self, line: u64) {
        prefetch::for_write(self.sets.of(line).as_ptr());
    }

    /// Looks a line up and notes that it was used.
    pub(crate) fn touch(&self, line: u64) -> Found {
        let Some(word) = self.word(line) else { return Found::No };
        let was = word.load(Relaxed);
        if was & USED == 0 {
            word.store(was | USED, Relaxed);
        }
        if was & WRITABLE == 0 { Found::Shared } else { Found::Writable }
    }

    /// Lets the one CPU that uses this cache write a line that it has.
    pub(crate) fn make_writable(&self, line: u64) {
        if let Some(word) = self.word(line) {
            word.store(line << LINE_SHIFT | USED | WRITABLE, Relaxed);
        }
    }

    /// Takes the right to write a line away.
    pub(crate) fn make_shared(&self, line: u64) {
        if let Some(word) = self.word(line) {
            word.store(line << LINE_SHIFT | USED, Relaxed);
        }
    }

    /// Puts a line in; returns the line that had to leave.
    pub(crate) fn insert(&self, line: u64, writable: bool) -> Option<u64> {
        let set = self.sets.of(line);
        let writable = if writable { WRITABLE } else { 0 };
        let word = line << LINE_SHIFT | writable;
        // What was taken out has left room.
        let takes = |way: &AtomicU64| {
            way.load(Relaxed) == 0 && way.compare_exchange(0, word, Relaxed, Relaxed).is_ok()
        };
        if set.iter().any(takes) {
            return None;
        }
        let hand = &self.hands[self.sets.index(line)];
        let mut way = hand.load(Relaxed) as usize;
        // Two rounds find a victim even when all were used, and others set bits meanwhile.
        for _ in 0..2 * set.len() {
            way = if way + 1 < set.len() { way + 1 } else { 0 };
            let now = set[way].load(Relaxed);
            if now & USED == 0 {
                break;
            }
            set[way].store(now & !USED, Relaxed);
        }
        hand.store(way as u32, Relaxed);
        let victim = set[way].swap(word, Relaxed);
        (victim != 0).then_some(victim >> LINE_SHIFT)
    }

    /// Takes a line out.
    pub(crate) fn remove(&self, line: u64) {
        if let Some(word) = self.word(line) {
            word.store(0, Relaxed);
        }
    }

    fn word(&self, line: u64) -> Option<&AtomicU64> {
        self.sets.of(line).iter().find(|w| w.load(Relaxed) >> LINE_SHIFT == line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> LastLevel {
        LastLevel::new(&model::Cache {
            bytes: 4 * 64,
            ways: 4,
            latency_cycles: 1.0,
            cache_of_cpu: vec![0],
        })
    }

    #[test]
    fn what_was_used_stays() {
        let cache = cache();
        for line in 1..=4 {
            assert_eq!(cache.insert(line, false), None);
        }
        cache.touch(1);
        let left: Vec<u64> = (5..=7).filter_map(|line| cache.insert(line, false)).collect();
        assert_eq!(left.len(), 3);
        assert!(!left.contains(&1));
    }

    #[test]
    fn the_right_to_write_comes_and_goes() {
        let cache = cache();
        assert_eq!(cache.touch(7), Found::No);
        cache.insert(7, true);
        assert_eq!(cache.touch(7), Found::Writable);
        cache.make_shared(7);
        assert_eq!(cache.touch(7), Found::Shared);
        cache.make_writable(7);
        assert_eq!(cache.touch(7), Found::Writable);
    }

    #[test]
    fn what_was_taken_out_makes_room() {
        let cache = cache();
        (1..=4).for_each(|line| assert_eq!(cache.insert(line, false), None));
        cache.remove(3);
        assert_eq!(cache.insert(5, false), None);
        assert!(cache.insert(6, false).is_some());
    }
}
