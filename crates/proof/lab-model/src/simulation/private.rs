//! A cache that one CPU uses alone. Accesses of other CPUs only remove lines from it, or revoke the
//! right to write them.
//!
//! A set is a list of lines, most recently used first, so the hot line is found at once, and
//! replacement is least recently used.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::model;

/// Bit 0 of a word: the CPU may write the line without asking. A word of 0 is empty: line 0 belongs
/// to the firmware, never to a program.
const WRITABLE: u64 = 1;

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The line is not in the cache.
    No,
    /// The line is in the cache, but others may have copies.
    Shared,
    /// The line is in this cache, and the CPU may write it without asking.
    Writable,
}

impl Found {
    /// Whether that suffices for an access.
    #[inline]
    pub(crate) fn allows(self, write: bool) -> bool {
        match self {
            Self::No => false,
            Self::Shared => !write,
            Self::Writable => true,
        }
    }
}

/// The cache; see the module documentation.
#[derive(Debug)]
pub(crate) struct PrivateCache {
    sets: Sets,
}

/// Words by set.
#[derive(Debug)]
pub(crate) struct Sets {
    words: Box<[AtomicU64]>,
    ways: usize,
    mask: u64,
}

impl Sets {
    /// As many sets as fit, rounded to a power of two.
    pub(crate) fn new(cache: &model::Cache) -> Self {
        let ways = cache.ways.max(1) as usize;
        let lines = usize::try_from(cache.bytes / model::LINE_BYTES).unwrap_or(ways).max(ways);
        // If the number of sets is not a power of two, the rest becomes additional ways.
        let sets = 1 << (lines / ways).ilog2();
        let ways = lines / sets;
        let words = (0..sets * ways).map(|_| AtomicU64::new(0)).collect();
        Self { words, ways, mask: sets as u64 - 1 }
    }

    #[inline]
    pub(crate) fn of(&self, line: u64) -> &[AtomicU64] {
        let start = (line & self.mask) as usize * self.ways;
        &self.words[start..start + self.ways]
    }

    pub(crate) fn index(&self, line: u64) -> usize {
        (line & self.mask) as usize
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.mask as usize + 1
    }

    pub(crate) fn lines(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn ways(&self) -> usize {
        self.ways
    }
}

impl PrivateCache {
    pub(crate) fn new(cache: &model::Cache) -> Self {
        Self { sets: Sets::new(cache) }
    }

    /// Number of sets, a power of two.
    #[inline]
    pub(crate) fn sets(&self) -> usize {
        self.sets.count()
    }

    /// Looks up a line and makes it the most recent one.
    #[inline]
    pub(crate) fn touch(&self, line: u64) -> Found {
        let set = self.sets.of(line);
        let first = set[0].load(Relaxed);
        if first >> 1 == line {
            return found(first);
        }
        Self::touch_older(set, first, line)
    }

    #[inline]
    fn touch_older(set: &[AtomicU64], first: u64, line: u64) -> Found {
        let Some(way) = set.iter().position(|w| w.load(Relaxed) >> 1 == line) else {
            return Found::No;
        };
        let word = set[way].load(Relaxed);
        for way in (2..=way).rev() {
            set[way].store(set[way - 1].load(Relaxed), Relaxed);
        }
        if let Some(second) = set.get(1) {
            second.store(first, Relaxed);
        }
        set[0].store(word, Relaxed);
        found(word)
    }

    /// Inserts a line at the front; returns the line that was replaced.
    pub(crate) fn insert(&self, line: u64, writable: bool) -> Option<u64> {
        let set = self.sets.of(line);
        let mut moving = line << 1 | u64::from(writable);
        for way in set {
            let word = way.load(Relaxed);
            way.store(moving, Relaxed);
            if word == 0 || word >> 1 == line {
                return None;
            }
            moving = word;
        }
        Some(moving >> 1)
    }

    /// Gives the CPU the right to write a line that it has.
    pub(crate) fn make_writable(&self, line: u64) {
        self.change(line, |word| word | WRITABLE);
    }

    /// Revokes the right to write a line.
    pub(crate) fn make_shared(&self, line: u64) -> bool {
        self.change(line, |word| word & !WRITABLE)
    }

    /// Removes a line. Returns whether it was there.
    pub(crate) fn remove(&self, line: u64) -> bool {
        self.change(line, |_| 0)
    }

    fn change(&self, line: u64, to: impl Fn(u64) -> u64) -> bool {
        let set = self.sets.of(line);
        let way = set.iter().find(|w| w.load(Relaxed) >> 1 == line);
        way.map(|w| w.store(to(w.load(Relaxed)), Relaxed)).is_some()
    }
}

#[inline]
fn found(word: u64) -> Found {
    if word & WRITABLE == 0 { Found::Shared } else { Found::Writable }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cache(lines: u64, ways: u32) -> PrivateCache {
        PrivateCache::new(&model::Cache {
            bytes: lines * 64,
            ways,
            latency_cycles: 1.0,
            cache_of_cpu: vec![0],
        })
    }

    #[test]
    fn the_right_to_write_comes_and_goes() {
        let cache = cache(8, 2);
        assert_eq!(cache.touch(5), Found::No);
        cache.insert(5, false);
        assert_eq!(cache.touch(5), Found::Shared);
        cache.make_writable(5);
        assert_eq!(cache.touch(5), Found::Writable);
        assert!(cache.make_shared(5));
        assert_eq!(cache.touch(5), Found::Shared);
        assert!(cache.remove(5));
        assert!(!cache.remove(5));
        assert_eq!(cache.touch(5), Found::No);
    }

    #[test]
    fn a_capacity_that_is_no_power_of_two_is_kept() {
        assert_eq!(cache(24, 2).sets.lines(), 24);
        assert_eq!(cache(11 * 16, 11).sets.count(), 16);
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_list_with_the_least_recent_leaving(
            lines in proptest::collection::vec(1u64..40, 1..200),
        ) {
            let cache = cache(4, 4);
            let mut list: Vec<u64> = Vec::new();
            for line in lines {
                let there = list.contains(&line);
                prop_assert_eq!(cache.touch(line) != Found::No, there);
                list.retain(|l| *l != line);
                list.insert(0, line);
                let left = if there { None } else { cache.insert(line, false) };
                prop_assert_eq!(left, (list.len() > 4).then(|| list.pop().unwrap()));
            }
        }
    }
}
