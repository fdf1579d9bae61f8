//! An array in which each thread has its own part, which it reads and writes in order.

use std::sync::atomic::Ordering::Relaxed;

use super::area::{Area, Pages, lines, page_words};
use super::clock::Clock;
use super::init_readall::TWIN_WORDS;
use super::load::{Access, Load, Pattern, Usage};
use super::loops::{advance, compute_ns, fill, filled, part, sum};
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{KernelError, Options, Place};

/// The array.
pub(super) struct Parts {
    pub area: Area,
    seed: u64,
    threads: usize,
}

impl Parts {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let threads = pinned.threads();
        let words = (options.bytes / 8) as usize;
        let words = part(words, threads - 1, threads).end;
        let area = Area::new(words, place, Pages::Small, pinned)?;
        Ok(Self { area, seed: options.seed, threads })
    }

    /// Fills the part of this thread.
    pub fn fill_own(&self, stage: &Stage<'_>) {
        stage.prepare(|| fill(self.area.words(), self.range(stage.thread()), self.seed));
    }

    /// The main thread fills everything. Then each thread reads its part, so that modified lines in
    /// the main thread's cache return to memory now, and not during the measurement.
    pub fn fill_by_main(&self, stage: &Stage<'_>) {
        stage.prepare(|| {
            if stage.thread() == 0 {
                fill(self.area.words(), 0..self.area.words().len(), self.seed);
            }
        });
        stage.prepare(|| {
            std::hint::black_box(sum(&self.area.words()[self.range(stage.thread())]));
        });
    }

    /// One pass over the part of a thread. Each thread begins at a different page. Otherwise all
    /// interleaved parts would begin on the same node, and all threads would move from node to node
    /// together.
    pub fn pass(&self, thread: usize) -> u64 {
        let words = &self.area.words()[self.range(thread)];
        let (first, rest) = words.split_at(words.len().min(thread * page_words()));
        advance(rest).wrapping_add(advance(first))
    }

    /// The sum of what all passes of all threads return.
    pub fn expected(&self, passes: usize) -> u64 {
        let once = filled(0..self.area.words().len(), self.seed);
        let sum_of_passes = (passes * (passes + 1) / 2) as u64;
        let grown = (self.area.words().len() as u64).wrapping_mul(sum_of_passes);
        once.wrapping_mul(passes as u64).wrapping_add(grown)
    }

    /// The number of words in all passes.
    pub fn items(&self, passes: usize) -> u64 {
        (self.area.words().len() * passes) as u64
    }

    /// Moves each part to the node where its thread is after it has moved by `rotated` nodes.
    pub fn collocate(&self, pinned: &PinnedThreads, rotated: usize) -> Result<(), KernelError> {
        let pages = self.range(0).len() / page_words();
        let homes: Vec<usize> =
            (0..self.threads).map(|thread| pinned.rotated(thread, rotated).node).collect();
        self.area.move_pages(pinned, |page| homes[page / pages.max(1) % homes.len()])
    }

    /// Nanoseconds of CPU time per word.
    pub fn pace(&self, clock: &Clock) -> f64 {
        let twin = &self.area.words()[..TWIN_WORDS.min(self.area.words().len())];
        let before: Vec<u64> = twin.iter().map(|word| word.load(Relaxed)).collect();
        let pace = compute_ns(clock, twin.len(), || {
            std::hint::black_box(advance(twin));
        });
        twin.iter().zip(before).for_each(|(word, value)| word.store(value, Relaxed));
        pace
    }

    /// The loads of one pass by threads that have moved by some nodes, over pages with these homes.
    pub fn loads(
        &self,
        pinned: &PinnedThreads,
        rotated: usize,
        homes: &[Option<usize>],
        pace: f64,
    ) -> Vec<Load> {
        let load = |thread: usize| {
            let range = self.range(thread);
            let access = Access {
                pattern: Pattern::Stream,
                lines: lines(homes, range.clone(), pinned.nodes()),
                usage: Usage::Write,
                footprint_bytes: 0,
                huge: false,
            };
            Load::new(pinned.rotated(thread, rotated), pace * range.len() as f64, vec![access])
        };
        (0..self.threads).map(load).collect()
    }

    fn range(&self, thread: usize) -> std::ops::Range<usize> {
        part(self.area.words().len(), thread, self.threads)
    }
}
