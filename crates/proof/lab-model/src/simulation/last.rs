//! The last level of cache, one or more of them, each used by several CPUs at once.
//!
//! Which lines are there the directory knows; this keeps the order in which they leave: a
//! clock, that is least recently used to within one round.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::private::Sets;
use crate::model;

/// Bit 0 of a word: used since the hand passed.
const USED: u64 = 1;

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

    /// Notes that a line was used.
    pub(crate) fn touch(&self, line: u64) {
        let found = self.sets.of(line).iter().find(|w| w.load(Relaxed) >> 1 == line);
        if let Some(word) = found.filter(|w| w.load(Relaxed) & USED == 0) {
            word.store(line << 1 | USED, Relaxed);
        }
    }

    /// Puts a line in; returns the line that had to leave.
    pub(crate) fn insert(&self, line: u64) -> Option<u64> {
        let set = self.sets.of(line);
        let hand = &self.hands[self.sets.index(line)];
        let mut way = hand.load(Relaxed) as usize;
        // Two rounds find a victim even when all were used, and others set bits meanwhile.
        for _ in 0..2 * set.len() {
            way = if way + 1 < set.len() { way + 1 } else { 0 };
            let word = set[way].load(Relaxed);
            if word & USED == 0 {
                break;
            }
            set[way].store(word & !USED, Relaxed);
        }
        hand.store(way as u32, Relaxed);
        let victim = set[way].swap(line << 1, Relaxed);
        (victim != 0).then_some(victim >> 1)
    }

    /// Takes a line out.
    pub(crate) fn remove(&self, line: u64) {
        let found = self.sets.of(line).iter().find(|w| w.load(Relaxed) >> 1 == line);
        if let Some(word) = found {
            word.store(0, Relaxed);
        }
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
            assert_eq!(cache.insert(line), None);
        }
        cache.touch(1);
        let left: Vec<u64> = (5..=7).filter_map(|line| cache.insert(line)).collect();
        assert_eq!(left.len(), 3);
        assert!(!left.contains(&1));
    }

    #[test]
    fn what_was_taken_out_makes_room() {
        let cache = cache();
        (1..=4).for_each(|line| assert_eq!(cache.insert(line), None));
        cache.remove(3);
        let left: Vec<Option<u64>> = (5..=8).map(|line| cache.insert(line)).collect();
        assert_eq!(left.iter().flatten().count(), 3);
    }
}
