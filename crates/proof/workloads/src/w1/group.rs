//! The groups of W1. Their headers are in segments. The thread that first needs a segment makes it,
//! so a group's header lies on the node of the thread that met the group first.

use std::hint::spin_loop;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::yield_now;

use crate::table::Entry;

/// Headers of a segment.
const SEGMENT: usize = 1024;

/// Groups handed out at once when all are complete: few, so that all threads end at about the same
/// time.
const PIECE: usize = 128;

/// How often to check before yielding the CPU to the thread that will publish a number.
const SPINS: u32 = 64;

/// One group in its own cache line, so that threads that work on different groups never contend for
/// a line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Group<B> {
    /// Its key, once the header is in use.
    pub key: AtomicU64,
    /// The position of the next value: only a hint for a prefetch.
    pub tail: AtomicPtr<u64>,
    /// Its values; empty while the header is not in use.
    pub values: Mutex<B>,
}

/// All groups.
#[derive(Debug)]
pub struct Groups<B> {
    segments: Vec<OnceLock<Box<[Group<B>]>>>,
    /// The next segment to make.
    made: AtomicUsize,
    /// The next piece to hand out when all groups are complete.
    next: AtomicUsize,
}

/// The numbers that a thread may still assign to groups.
pub type Numbers = Range<usize>;

impl<B: Default> Groups<B> {
    /// Room for `groups` groups that `threads` threads meet.
    pub fn new(groups: u64, threads: usize) -> Self {
        // Every thread may leave one segment partly unused.
        let segments = groups.div_ceil(SEGMENT as u64) as usize + threads;
        Self {
            segments: (0..segments).map(|_| OnceLock::new()).collect(),
            made: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
        }
    }

    /// The number of the group that the table's `entry` for `key` refers to. A new group takes the
    /// next of `numbers`.
    pub fn number(&self, entry: Entry<'_>, key: u64, numbers: &mut Numbers) -> usize {
        if entry.new {
            let number = numbers.next().unwrap_or_else(|| self.make(numbers));
            self.group(number).key.store(key, Ordering::Relaxed);
            // 0 is the word of a key whose group is not yet known.
            entry.word.store(number as u64 + 1, Ordering::Release);
            return number;
        }
        let mut spins = 0;
        loop {
            match entry.word.load(Ordering::Acquire) {
                0 if spins < SPINS => spin_loop(),
                0 => yield_now(),
                word => return word as usize - 1,
            }
            spins += 1;
        }
    }

    /// Makes a segment. Returns its first number and leaves the others in `numbers`.
    fn make(&self, numbers: &mut Numbers) -> usize {
        let segment = self.made.fetch_add(1, Ordering::Relaxed);
        self.segments[segment].get_or_init(|| (0..SEGMENT).map(|_| Group::default()).collect());
        let first = segment * SEGMENT;
        *numbers = first + 1..first + SEGMENT;
        first
    }

    /// A group by its number.
    #[inline]
    pub fn group(&self, number: usize) -> &Group<B> {
        let segment = &self.segments[number / SEGMENT];
        &segment.get().map_or(&[][..], |groups| groups)[number % SEGMENT]
    }

    /// The groups for one thread to finalise. Over all threads, each group occurs once.
    pub fn share(&self) -> impl Iterator<Item = &[Group<B>]> {
        std::iter::from_fn(|| {
            let first = self.next.fetch_add(1, Ordering::Relaxed) * PIECE;
            let segment = self.segments.get(first / SEGMENT)?.get()?;
            segment[first % SEGMENT..].get(..PIECE)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_handed_out_once() {
        let groups = Groups::<()>::new(3 * SEGMENT as u64, 2);
        // Two threads, whose last segments stay partly unused.
        for (first, count) in [(1, SEGMENT + 5), (10_000, SEGMENT / 2)] {
            let mut numbers = 0..0;
            for key in first..first + count {
                let number = numbers.next().unwrap_or_else(|| groups.make(&mut numbers));
                groups.group(number).key.store(key as u64, Ordering::Relaxed);
            }
        }
        let (mut one, mut other) = (groups.share(), groups.share());
        let mut pieces: Vec<&[Group<()>]> = one.by_ref().take(3).collect();
        pieces.extend(other.by_ref());
        pieces.extend(one);
        let keys = pieces.into_iter().flatten().map(|group| group.key.load(Ordering::Relaxed));
        let mut keys: Vec<u64> = keys.filter(|key| *key != 0).collect();
        keys.sort_unstable();
        assert!(
            keys.into_iter().eq((1..SEGMENT as u64 + 6).chain(10_000..10_000 + SEGMENT as u64 / 2))
        );
    }
}
