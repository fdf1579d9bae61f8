//! k1, init1-readall: the main thread fills an array, and all threads read all of it in order, each
//! from a different position. One controller and its links serve all threads.
//!
//! Best: a copy on each node; where only pages can be placed, interleave. Collocating the pages
//! with one reader does not help the others.

use super::area::lines;
use super::clock::Clock;
use super::copies::Copies;
use super::load::{Access, Load, Pattern, Usage};
use super::loops::{compute_ns, fill, filled, part, sum};
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};

/// See the module.
pub(super) struct InitReadall {
    place: Place,
    seed: u64,
    threads: usize,
    data: Copies,
}

impl InitReadall {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let words = (options.bytes / 8) as usize;
        let data = Copies::new(words, place, pinned)?;
        Ok(Self { place, seed: options.seed, threads: pinned.threads(), data })
    }

    fn words(&self) -> usize {
        self.data.original().words().len()
    }
}

impl Pathology for InitReadall {
    fn areas(&self) -> Vec<&Area> {
        vec![self.data.original()]
    }

    fn copies(&self) -> Option<&Copies> {
        Some(&self.data)
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        self.data.fill(stage, |area, range| fill(area.words(), range, self.seed));
        if self.place == Place::Collocate {
            let last = stage.pinned().slot(self.threads - 1).node;
            stage.mitigate(|| self.data.original().move_pages(stage.pinned(), |_| last));
        }
        let begin = part(self.words(), stage.thread(), self.threads).start;
        self.data.read(stage, |words| {
            let read = || sum(&words[begin..]).wrapping_add(sum(&words[..begin]));
            stage.rounds(|_| stage.work(read))
        })
    }

    fn expected(&self, rounds: usize) -> u64 {
        filled(0..self.words(), self.seed).wrapping_mul((self.threads * rounds) as u64)
    }

    fn items(&self) -> u64 {
        (self.words() * self.threads) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let twin = &self.data.original().words()[..TWIN_WORDS.min(self.words())];
        let pace = compute_ns(clock, twin.len(), || {
            std::hint::black_box(sum(twin));
        });
        let threads = read_all(&self.data, pinned, &(0..self.threads).collect::<Vec<_>>(), pace)?;
        Ok(vec![Step::of(threads)])
    }
}

/// The loads of these threads when they read all data in order, each beginning with its own part.
/// There is one load per part, because each part may lie on a different node.
pub(super) fn read_all(
    data: &Copies,
    pinned: &PinnedThreads,
    readers: &[usize],
    pace: f64,
) -> Result<Vec<Vec<Load>>, KernelError> {
    let words = data.original().words().len();
    let homes = (0..pinned.nodes()).map(|node| match pinned.thread_nodes().contains(&node) {
        true => data.homes(node, pinned),
        false => Ok(Vec::new()),
    });
    let homes = homes.collect::<Result<Vec<_>, _>>()?;
    let threads = pinned.threads();
    let load = |thread: usize, step: usize| {
        let slot = pinned.slot(thread);
        let mut range = part(words, (thread + step) % threads, threads);
        if range.end + range.len() > words {
            range.end = words;
        }
        let access = Access {
            pattern: Pattern::Stream,
            lines: lines(&homes[slot.node], range.clone(), pinned.nodes()),
            usage: Usage::Read,
            footprint_bytes: 0,
            huge: false,
        };
        Load::new(slot, pace * range.len() as f64, vec![access])
    };
    let all = |&thread: &usize| (0..threads).map(|step| load(thread, step)).collect();
    Ok(readers.iter().map(all).collect())
}

/// Words that fit into a private cache, even into the small ones of a lab.
pub(super) const TWIN_WORDS: usize = 256;
