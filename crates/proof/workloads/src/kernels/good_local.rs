//! k8, good-local: each thread computes `a = b + 3 c` (STREAM's triad) over arrays that it filled
//! itself, and then over arrays that fit into its cache. The placement is already right, so moving
//! any page only costs time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::area::{Pages, lines, page_words};
use super::clock::Clock;
use super::init_readall::TWIN_WORDS;
use super::load::{Access, Load, Pattern, Usage};
use super::loops::{compute_ns, fill, part, value};
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};

/// Passes of each thread over its arrays: enough for a difference of one percent to exceed the
/// differences in when threads begin.
const PASSES: usize = 8;
/// Words between two arrays, so that their lines lie in different sets of a small cache.
const PADDING: usize = 168;
/// Passes over the arrays in the cache: as many words as one pass over this many pages.
const TWIN_PASSES: usize = 1024;

/// See the module.
pub(super) struct GoodLocal {
    place: Place,
    seed: u64,
    threads: usize,
    /// Words of an array.
    array: usize,
    /// Three arrays one after the other: the result, the first and the second operand.
    area: Area,
}

impl GoodLocal {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let threads = pinned.threads();
        let each = (options.bytes / 8) as usize / 3;
        let array = part(each, threads - 1, threads).end;
        let area = Area::new(3 * array + 2 * PADDING, place, Pages::Small, pinned)?;
        Ok(Self { place, seed: options.seed, threads, array, area })
    }

    /// First words of the three arrays.
    fn starts(&self) -> [usize; 3] {
        [0, 1, 2].map(|n| n * (self.array + PADDING))
    }

    /// A thread's parts of the three arrays.
    fn own(&self, thread: usize, limit: usize) -> [&[AtomicU64]; 3] {
        let range = part(self.array, thread, self.threads);
        let end = range.end.min(range.start.saturating_add(limit));
        self.starts().map(|at| &self.area.words()[at + range.start..at + end])
    }
}

fn triad([a, b, c]: [&[AtomicU64]; 3]) -> u64 {
    let mut sum = 0u64;
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        let value = b.load(Relaxed).wrapping_add(c.load(Relaxed).wrapping_mul(3));
        a.store(value, Relaxed);
        sum = sum.wrapping_add(value);
    }
    sum
}

impl Pathology for GoodLocal {
    fn areas(&self) -> Vec<&Area> {
        vec![&self.area]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        let (thread, array) = (stage.thread(), self.array);
        stage.prepare(|| {
            let own = part(array, thread, self.threads);
            for at in self.starts() {
                fill(self.area.words(), at + own.start..at + own.end, self.seed);
            }
        });
        if self.place == Place::Collocate {
            let pages = part(array, 0, self.threads).len() / page_words();
            let home = |page: usize| stage.pinned().slot(page / pages.max(1) % self.threads).node;
            stage.mitigate(|| self.area.move_pages(stage.pinned(), home));
        }
        let repeat = |passes: usize, limit: usize| {
            (0..passes).fold(0, |sum: u64, _| sum.wrapping_add(triad(self.own(thread, limit))))
        };
        stage.rounds(|_| {
            let streamed = stage.work(|| repeat(PASSES, usize::MAX));
            streamed.wrapping_add(stage.work(|| repeat(TWIN_PASSES, TWIN_WORDS / 4)))
        })
    }

    fn expected(&self, rounds: usize) -> u64 {
        let array = self.array;
        let triad = |index: usize| {
            let operand = |at: usize| value(self.seed, self.starts()[at] + index);
            operand(1).wrapping_add(operand(2).wrapping_mul(3))
        };
        let sum = |range: std::ops::Range<usize>| {
            range.fold(0u64, |sum, index| sum.wrapping_add(triad(index)))
        };
        let all = sum(0..array).wrapping_mul(PASSES as u64);
        let twins = (0..self.threads).map(|thread| {
            let own = part(array, thread, self.threads);
            sum(own.start..own.end.min(own.start + TWIN_WORDS / 4))
        });
        let once =
            twins.fold(all, |all, twin| all.wrapping_add(twin.wrapping_mul(TWIN_PASSES as u64)));
        once.wrapping_mul(rounds as u64)
    }

    fn items(&self) -> u64 {
        (self.array * PASSES + self.threads * TWIN_PASSES * TWIN_WORDS / 4) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let homes = self.area.homes(pinned)?;
        let twin = self.own(0, TWIN_WORDS / 4);
        let pace = compute_ns(clock, twin[0].len(), || {
            std::hint::black_box(triad(twin));
        });
        let access = |at: usize, own: &std::ops::Range<usize>| Access {
            pattern: Pattern::Stream,
            lines: lines(&homes, at + own.start..at + own.end, pinned.nodes()),
            usage: if at == 0 { Usage::Write } else { Usage::Read },
            footprint_bytes: 0,
            huge: false,
        };
        let load = |thread: usize| {
            let own = part(self.array, thread, self.threads);
            let accesses = self.starts().map(|at| access(at, &own)).to_vec();
            Load::new(pinned.slot(thread), pace * own.len() as f64, accesses)
        };
        let in_cache = |thread: usize| {
            let words = TWIN_PASSES * twin[0].len();
            Load::new(pinned.slot(thread), pace * words as f64, Vec::new())
        };
        let streams = (0..self.threads).map(load);
        Ok(vec![
            Step::once(streams).times(PASSES as f64),
            Step::once((0..self.threads).map(in_cache)),
        ])
    }
}
