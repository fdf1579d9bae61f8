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
/// Bit 0 of a hand: no way of the set is free, as far as is known.
const FULL: u32 = 1;
/// The way that the hand is at is in the bits above.
const HAND_SHIFT: u32 = 1;

/// Tags in a word, a byte each.
const TAGS: usize = 8;
const TAG_BITS: usize = 8;
const LOWEST_BITS: u64 = u64::MAX / 0xff;
const HIGHEST_BITS: u64 = LOWEST_BITS << (TAG_BITS - 1);

/// One cache of the last level. It includes the private caches of the CPUs that use it.
#[derive(Debug)]
pub(crate) struct LastLevel {
    sets: Sets,
    /// For each way eight bits that tell lines apart, so that eight ways are looked at at a time. A
    /// change that meets another one of the same word may be lost: then the line is not found.
    tags: Box<[AtomicU64]>,
    hands: Box<[AtomicU32]>,
}

/// A place for a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    way: usize,
    /// The line that is there now.
    pub(crate) leaves: Option<u64>,
}

impl LastLevel {
    pub(crate) fn new(cache: &model::Cache) -> Self {
        let sets = Sets::new(cache);
        let hands = (0..sets.count()).map(|_| AtomicU32::new(0)).collect();
        let tags = sets.count() * sets.ways().div_ceil(TAGS);
        let tags = (0..tags).map(|_| AtomicU64::new(0)).collect();
        Self { sets, tags, hands }
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

    /// Looks for a place for a line. Others may look for one at the same time, and come to
    /// the same.
    pub(crate) fn room(&self, line: u64) -> Room {
        let set = self.sets.of(line);
        let hand = &self.hands[self.sets.index(line)];
        let state = hand.load(Relaxed);
        if state & FULL == 0 {
            // What was taken out has left room.
            if let Some(way) = set.iter().position(|way| way.load(Relaxed) == 0) {
                return Room { way, leaves: None };
            }
        }
        let mut way = (state >> HAND_SHIFT) as usize;
        // Two rounds find a victim even when all were used, and others set bits meanwhile.
        for _ in 0..2 * set.len() {
            way = if way + 1 < set.len() { way + 1 } else { 0 };
            let now = set[way].load(Relaxed);
            if now & USED == 0 {
                break;
            }
            set[way].store(now & !USED, Relaxed);
        }
        hand.store((way as u32) << HAND_SHIFT | FULL, Relaxed);
        Room { way, leaves: line_of(set[way].load(Relaxed)) }
    }

    /// Puts a line there; returns the line that had to leave.
    pub(crate) fn put(&self, line: u64, room: Room, writable: bool) -> Option<u64> {
        let writable = if writable { WRITABLE } else { 0 };
        let tags = &self.tags_of(line)[room.way / TAGS];
        let shift = room.way % TAGS * TAG_BITS;
        tags.store(tags.load(Relaxed) & !(0xff << shift) | tag(line) << shift, Relaxed);
        line_of(self.sets.of(line)[room.way].swap(line << LINE_SHIFT | writable, Relaxed))
    }

    /// Takes a line out.
    pub(crate) fn remove(&self, line: u64) {
        if let Some(word) = self.word(line) {
            word.store(0, Relaxed);
            self.hands[self.sets.index(line)].fetch_and(!FULL, Relaxed);
        }
    }

    /// Tags of a line's set.
    #[inline]
    fn tags_of(&self, line: u64) -> &[AtomicU64] {
        let words = self.sets.ways().div_ceil(TAGS);
        &self.tags[self.sets.index(line) * words..][..words]
    }

    fn word(&self, line: u64) -> Option<&AtomicU64> {
        let wanted = tag(line) * LOWEST_BITS;
        for (tags, ways) in self.tags_of(line).iter().zip(self.sets.of(line).chunks(TAGS)) {
            // A byte is 0 where the tag is the wanted one; such bytes, and some others beyond the
            // first of them, get their highest bit (Warren, "Hacker's Delight", section 6-1).
            let differ = tags.load(Relaxed) ^ wanted;
            let mut equal = differ.wrapping_sub(LOWEST_BITS) & !differ & HIGHEST_BITS;
            while equal != 0 {
                let way = ways.get(equal.trailing_zeros() as usize / TAG_BITS);
                if let Some(word) = way.filter(|way| way.load(Relaxed) >> LINE_SHIFT == line) {
                    return Some(word);
                }
                equal &= equal - 1;
            }
        }
        None
    }
}

/// What is kept of a line in a byte.
#[inline]
fn tag(line: u64) -> u64 {
    line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS as usize - TAG_BITS)
}

/// The line of a word; `None` when that is empty.
#[inline]
fn line_of(word: u64) -> Option<u64> {
    (word != 0).then_some(word >> LINE_SHIFT)
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

    fn insert(cache: &LastLevel, line: u64) -> Option<u64> {
        let room = cache.room(line);
        let left = cache.put(line, room, false);
        assert_eq!(left, room.leaves);
        left
    }

    #[test]
    fn what_was_used_stays() {
        let cache = cache();
        for line in 1..=4 {
            assert_eq!(insert(&cache, line), None);
        }
        cache.touch(1);
        let left: Vec<u64> = (5..=7).filter_map(|line| insert(&cache, line)).collect();
        assert_eq!(left.len(), 3);
        assert!(!left.contains(&1));
    }

    #[test]
    fn the_right_to_write_comes_and_goes() {
        let cache = cache();
        assert_eq!(cache.touch(7), Found::No);
        cache.put(7, cache.room(7), true);
        assert_eq!(cache.touch(7), Found::Writable);
        cache.make_shared(7);
        assert_eq!(cache.touch(7), Found::Shared);
        cache.make_writable(7);
        assert_eq!(cache.touch(7), Found::Writable);
    }

    #[test]
    fn what_was_taken_out_makes_room() {
        let cache = cache();
        (1..=4).for_each(|line| assert_eq!(insert(&cache, line), None));
        assert!(insert(&cache, 5).is_some());
        cache.remove(5);
        assert_eq!(insert(&cache, 6), None);
        assert!(insert(&cache, 7).is_some());
    }

    #[test]
    fn who_comes_to_the_same_place_later_sends_the_first_away() {
        let cache = cache();
        let (one, two) = (cache.room(1), cache.room(2));
        assert_eq!(cache.put(1, one, false), None);
        assert_eq!(cache.put(2, two, false), Some(1));
    }
}
