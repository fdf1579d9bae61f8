//! The last-level caches, each of which one or more CPUs use.
//!
//! The directory knows which lines they hold; this module keeps the replacement order: a clock,
//! which approximates least recently used within one round.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use numapilot_sys::prefetch;

use super::private::{Found, Sets};
use crate::model;

/// Bit 0 of a word: the line was used since the hand passed.
const USED: u64 = 1;
/// Bit 1: the only CPU of this cache has changed the line, and may write it without asking. Neither
/// this bit nor the next one is set in a cache with several CPUs.
const CHANGED: u64 = 2;
/// Bit 2: no other cache has the line. The only CPU of this cache may change it once that is
/// recorded here.
const ALONE: u64 = 4;
/// The line is in the higher bits.
const LINE_SHIFT: u32 = 3;
/// Bit 0 of a hand: no way of the set is known to be free.
const FULL: u32 = 1;
/// The way at the hand is in the higher bits.
const HAND_SHIFT: u32 = 1;

/// Tags per word, a byte each.
const TAGS: usize = 8;
const TAG_BITS: usize = 8;
const LOWEST_BITS: u64 = u64::MAX / 0xff;
const HIGHEST_BITS: u64 = LOWEST_BITS << (TAG_BITS - 1);

/// A last-level cache. It includes the private caches of its CPUs.
#[derive(Debug)]
pub(crate) struct Llc {
    sets: Sets,
    /// An eight-bit hash of each way's line, so that one comparison checks eight ways.
    tags: Box<[AtomicU64]>,
    /// Tag words per set.
    tag_words: usize,
    hands: Box<[AtomicU32]>,
}

/// The way that a line will be inserted into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    way: usize,
    /// The current word.
    word: u64,
}

impl Room {
    /// The line that is there now.
    #[inline]
    pub(crate) fn leaves(self) -> Option<u64> {
        line_of(self.word)
    }
}

/// Whether a cache with a single CPU has a line alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    /// Unknown, because the cache has several CPUs; or no, because another cache has the line too.
    No,
    /// No other cache has the line.
    Yes,
    /// The CPU has changed it.
    Changed,
}

impl Alone {
    #[inline]
    fn bits(self) -> u64 {
        match self {
            Self::No => 0,
            Self::Yes => ALONE,
            Self::Changed => CHANGED,
        }
    }
}

/// A line that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub line: u64,
    /// Whether the only CPU of this cache has changed it.
    pub changed: bool,
}

impl Llc {
    pub(crate) fn new(cache: &model::Cache) -> Self {
        let sets = Sets::new(cache);
        let hands = (0..sets.count()).map(|_| AtomicU32::new(0)).collect();
        let tag_words = sets.ways().div_ceil(TAGS);
        let tags = (0..sets.count() * tag_words).map(|_| AtomicU64::new(0)).collect();
        Self { sets, tags, tag_words, hands }
    }

    pub(crate) fn lines(&self) -> usize {
        self.sets.lines()
    }

    /// Prefetches the set of a line into the host's caches during other work.
    #[inline]
    pub(crate) fn prepare(&self, line: u64) {
        prefetch::for_write(self.sets.of(line).as_ptr());
    }

    /// Records a use of a line.
    pub(crate) fn touch(&self, line: u64) {
        if let Some(word) = self.word(line) {
            note(word, word.load(Relaxed), USED);
        }
    }

    /// An access of the only CPU of this cache. Returns the line's state after the access: the CPU
    /// may write a line that it has changed.
    #[inline]
    pub(crate) fn access(&self, line: u64, write: bool) -> Found {
        let Some(word) = self.word(line) else { return Found::No };
        let was = word.load(Relaxed);
        let change = if write && was & ALONE != 0 { CHANGED } else { 0 };
        note(word, was, USED | change);
        if (was | change) & CHANGED == 0 { Found::Shared } else { Found::Writable }
    }

    /// The only CPU of this cache changes a line that no other cache has any more.
    pub(crate) fn change(&self, line: u64) {
        if let Some(word) = self.word(line) {
            word.store(line << LINE_SHIFT | USED | CHANGED, Relaxed);
        }
    }

    /// Another cache gets the line too. Returns whether the only CPU of this cache has changed it.
    pub(crate) fn share(&self, line: u64) -> bool {
        let Some(word) = self.word(line) else { return false };
        let was = word.load(Relaxed);
        if was & (CHANGED | ALONE) != 0 {
            word.store(was & !(CHANGED | ALONE), Relaxed);
        }
        was & CHANGED != 0
    }

    /// Chooses a way for a line: a free one, or that of a victim.
    #[inline]
    pub(crate) fn room(&self, line: u64) -> Room {
        let set = self.sets.of(line);
        let hand = &self.hands[self.sets.index(line)];
        let state = hand.load(Relaxed);
        if state & FULL == 0 {
            // A removed line has left a free way.
            if let Some(way) = set.iter().position(|way| way.load(Relaxed) == 0) {
                return Room { way, word: 0 };
            }
        }
        let mut way = (state >> HAND_SHIFT) as usize;
        // If all ways were used, the first round clears their bits, and the second finds a victim.
        for _ in 0..2 * set.len() {
            way = if way + 1 < set.len() { way + 1 } else { 0 };
            let now = set[way].load(Relaxed);
            if now & USED == 0 {
                break;
            }
            set[way].store(now & !USED, Relaxed);
        }
        hand.store((way as u32) << HAND_SHIFT | FULL, Relaxed);
        Room { way, word: set[way].load(Relaxed) }
    }

    /// Inserts a line at the place that [`Self::room`] chose; returns the line that was there.
    #[inline]
    pub(crate) fn insert_line(&self, line: u64, room: Room, alone: Alone) -> Option<Victim> {
        let tags = &self.tags_of(line)[room.way / TAGS];
        let shift = room.way % TAGS * TAG_BITS;
        tags.store(tags.load(Relaxed) & !(0xff << shift) | tag(line) << shift, Relaxed);
        let word = line << LINE_SHIFT | alone.bits();
        let way = &self.sets.of(line)[room.way];
        let left = way.load(Relaxed);
        way.store(word, Relaxed);
        line_of(left).map(|line| Victim { line, changed: left & CHANGED != 0 })
    }

    /// Removes a line.
    pub(crate) fn remove(&self, line: u64) {
        if let Some(word) = self.word(line) {
            word.store(0, Relaxed);
            self.hands[self.sets.index(line)].fetch_and(!FULL, Relaxed);
        }
    }

    /// The tags of a line's set.
    #[inline]
    fn tags_of(&self, line: u64) -> &[AtomicU64] {
        &self.tags[self.sets.index(line) * self.tag_words..][..self.tag_words]
    }

    #[inline]
    fn word(&self, line: u64) -> Option<&AtomicU64> {
        let wanted = tag(line) * LOWEST_BITS;
        for (i, tags) in self.tags_of(line).iter().enumerate() {
            // A byte is 0 where the tag matches. Such bytes, and possibly others after the first of
            // them, get their highest bit set (Warren, "Hacker's Delight", section 6-1).
            let differ = tags.load(Relaxed) ^ wanted;
            let mut equal = differ.wrapping_sub(LOWEST_BITS) & !differ & HIGHEST_BITS;
            while equal != 0 {
                let way = i * TAGS + equal.trailing_zeros() as usize / TAG_BITS;
                let way = self.sets.of(line).get(way);
                if let Some(word) = way.filter(|way| way.load(Relaxed) >> LINE_SHIFT == line) {
                    return Some(word);
                }
                equal &= equal - 1;
            }
        }
        None
    }
}

/// Sets bits of a word, given its last known value, which mostly has them already.
#[inline]
fn note(word: &AtomicU64, was: u64, bits: u64) {
    if was & bits != bits {
        word.store(was | bits, Relaxed);
    }
}

/// The tag of a line.
#[inline]
fn tag(line: u64) -> u64 {
    line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS as usize - TAG_BITS)
}

/// The line in a word; `None` if the word is empty.
#[inline]
fn line_of(word: u64) -> Option<u64> {
    (word != 0).then_some(word >> LINE_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Llc {
        Llc::new(&model::Cache {
            bytes: 4 * 64,
            ways: 4,
            latency_cycles: 1.0,
            cache_of_cpu: vec![0],
        })
    }

    fn insert(cache: &Llc, line: u64) -> Option<u64> {
        let room = cache.room(line);
        let left = cache.insert_line(line, room, Alone::No).map(|victim| victim.line);
        assert_eq!(left, room.leaves());
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
        assert_eq!(cache.access(7, true), Found::No);
        cache.insert_line(7, cache.room(7), Alone::Changed);
        assert_eq!(cache.access(7, true), Found::Writable);
        assert!(cache.share(7));
        assert_eq!(cache.access(7, true), Found::Shared);
        assert!(!cache.share(7));
        cache.change(7);
        assert_eq!(cache.access(7, false), Found::Writable);
    }

    #[test]
    fn who_has_a_line_alone_changes_it_when_he_writes_it() {
        let cache = cache();
        let put = || assert_eq!(cache.insert_line(7, cache.room(7), Alone::Yes), None);
        put();
        assert_eq!(cache.access(7, false), Found::Shared);
        assert!(!cache.share(7));
        assert_eq!(cache.access(7, true), Found::Shared, "another has it too");
        cache.remove(7);
        put();
        assert_eq!(cache.access(7, true), Found::Writable);
        assert_eq!(cache.access(7, false), Found::Writable);
        (8..=10).for_each(|line| assert_eq!(insert(&cache, line), None));
        let left = (11..=20).find_map(|line| {
            cache.insert_line(line, cache.room(line), Alone::No).filter(|victim| victim.line == 7)
        });
        assert_eq!(left, Some(Victim { line: 7, changed: true }));
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
        assert_eq!(cache.insert_line(1, one, Alone::No), None);
        assert_eq!(cache.insert_line(2, two, Alone::No), Some(Victim { line: 1, changed: false }));
    }
}
