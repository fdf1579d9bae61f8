//! The inner loops, over words that all threads share. To the processor, relaxed atomic loads and
//! stores are plain ones.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::clock::Clock;
use crate::random::mix;

/// The first value of a word.
#[must_use]
pub fn value(seed: u64, index: usize) -> u64 {
    mix(seed.wrapping_add(index as u64))
}

/// Writes the first values to a range of words.
pub fn fill(words: &[AtomicU64], range: Range<usize>, seed: u64) {
    for (index, word) in range.clone().zip(&words[range]) {
        word.store(value(seed, index), Relaxed);
    }
}

/// The sum of the values that [`fill`] writes, computed without memory.
#[must_use]
pub fn filled(range: Range<usize>, seed: u64) -> u64 {
    range.fold(0, |sum, index| sum.wrapping_add(value(seed, index)))
}

/// Reads words in order.
#[must_use]
pub fn sum(words: &[AtomicU64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(word.load(Relaxed)))
}

/// Adds 1 to each word in order. Returns the sum of the new values.
#[must_use]
pub fn advance(words: &[AtomicU64]) -> u64 {
    words.iter().fold(0, |sum, word| {
        let next = word.load(Relaxed).wrapping_add(1);
        word.store(next, Relaxed);
        sum.wrapping_add(next)
    })
}

/// Part `index` of `count` equal parts of `words`, in whole pages. The remainder belongs to no
/// part.
#[must_use]
pub fn part(words: usize, index: usize, count: usize) -> Range<usize> {
    let page = super::area::page_words();
    let each = words / count.max(1) / page * page;
    index * each..(index + 1) * each
}

/// The CPU time of one item of work, in nanoseconds. `work` processes `items` items in memory that
/// fits into the first-level cache. This is the one figure that no machine description has.
pub fn compute_ns(clock: &Clock, items: usize, mut work: impl FnMut()) -> f64 {
    /// Long enough for every clock to measure, and short enough to cost nothing.
    const ITEMS: usize = 1 << 14;
    /// Of several tries, the shortest was not interrupted.
    const TRIES: usize = 3;
    let rounds = (ITEMS / items.max(1)).max(1);
    let mut shortest = Duration::MAX;
    work();
    for _ in 0..TRIES {
        let begun = clock.now();
        (0..rounds).for_each(|_| work());
        shortest = shortest.min(clock.now().saturating_sub(begun));
    }
    shortest.as_secs_f64() * 1e9 / (rounds * items.max(1)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_agree_with_arithmetic() {
        let words: Vec<AtomicU64> = (0..1000).map(|_| AtomicU64::new(0)).collect();
        fill(&words, 0..1000, 7);
        assert_eq!(sum(&words), filled(0..1000, 7));
        assert_eq!(advance(&words[10..20]), filled(10..20, 7).wrapping_add(10));
        assert_eq!(sum(&words), filled(0..1000, 7).wrapping_add(10));
        assert_ne!(filled(0..1000, 7), filled(0..1000, 8));
    }

    #[test]
    fn parts_are_whole_pages_without_overlap() {
        let page = super::super::area::page_words();
        assert_eq!(part(10 * page, 0, 3), 0..3 * page);
        assert_eq!(part(10 * page, 2, 3), 6 * page..9 * page);
        assert!(part(page, 0, 2).is_empty());
    }
}
