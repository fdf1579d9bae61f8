//! k4, gups: all threads add at random positions of a table that the main thread filled. The
//! table's node receives all reads and, later, all write-backs.
//!
//! Best: interleave. A copy per node would have to receive every write, and no page has a single
//! user to collocate it with.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::area::Pages;
use super::clock::Clock;
use super::init_readall::TWIN_WORDS;
use super::load::{Access, Load, Pattern, Usage, first_share};
use super::loops::{compute_ns, fill, part, value};
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};
use crate::random::{Draws, mix};

/// Each thread makes one update per this many words of the table.
const ONE_IN: usize = 16;

/// See the module.
pub(super) struct Gups {
    place: Place,
    seed: u64,
    threads: usize,
    table: Area,
}

impl Gups {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let threads = pinned.threads();
        let words = part((options.bytes / 8) as usize, threads - 1, threads).end;
        let table = Area::new(words, place, Pages::Small, pinned)?;
        Ok(Self { place, seed: options.seed, threads, table })
    }

    fn updates(&self) -> usize {
        (self.table.words().len() / ONE_IN).max(1)
    }
}

/// The positions that a thread updates, and the amounts that it adds.
fn updates(seed: u64, thread: usize, words: usize) -> impl Iterator<Item = (usize, u64)> {
    let mut draws = Draws::of(seed, thread as u64);
    std::iter::repeat_with(move || {
        let draw = draws.next();
        (((u128::from(draw) * words as u128) >> 64) as usize, draw)
    })
}

fn add(words: &[AtomicU64], seed: u64, thread: usize, count: usize) {
    for (index, by) in updates(seed, thread, words.len()).take(count) {
        words[index].fetch_add(by, Relaxed);
    }
}

fn digest(index: usize, word: u64) -> u64 {
    mix(word ^ index as u64)
}

impl Pathology for Gups {
    fn areas(&self) -> Vec<&Area> {
        vec![&self.table]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        let (words, pinned) = (self.table.words(), stage.pinned());
        let own = part(words.len(), stage.thread(), self.threads);
        stage.prepare(|| match self.place {
            Place::Local => fill(words, own.clone(), self.seed),
            _ if stage.thread() == 0 => fill(words, 0..words.len(), self.seed),
            _ => {}
        });
        if self.place == Place::Collocate {
            let last = pinned.slot(self.threads - 1).node;
            stage.mitigate(|| self.table.move_pages(pinned, |_| last));
        }
        stage.rounds(|_| {
            stage.work(|| add(words, self.seed, stage.thread(), self.updates()));
            0
        });
        stage.prepare(|| {
            let digests = own.clone().map(|index| digest(index, words[index].load(Relaxed)));
            digests.fold(0, u64::wrapping_add)
        })
    }

    fn expected(&self, rounds: usize) -> u64 {
        let words = self.table.words().len();
        let mut table: Vec<u64> = (0..words).map(|index| value(self.seed, index)).collect();
        for thread in 0..self.threads {
            for (index, by) in updates(self.seed, thread, words).take(self.updates()) {
                table[index] = table[index].wrapping_add(by.wrapping_mul(rounds as u64));
            }
        }
        let digests = table.into_iter().enumerate().map(|(index, word)| digest(index, word));
        digests.fold(0, u64::wrapping_add)
    }

    fn items(&self) -> u64 {
        (self.updates() * self.threads) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let twin: Vec<AtomicU64> = (0..TWIN_WORDS).map(|_| AtomicU64::new(0)).collect();
        let pace = compute_ns(clock, TWIN_WORDS, || add(&twin, self.seed, 0, TWIN_WORDS));
        let updates = self.updates() as f64;
        let footprint_bytes = (self.table.words().len() * 8) as u64;
        let first = first_share(footprint_bytes, 0.0, updates * self.threads as f64);
        let access = Access {
            pattern: Pattern::Independent,
            lines: self.table.spread(pinned, updates)?,
            usage: Usage::SharedUpdate(first),
            footprint_bytes,
            huge: false,
        };
        let load = |thread| Load::new(pinned.slot(thread), pace * updates, vec![access.clone()]);
        Ok(vec![Step::once((0..self.threads).map(load))])
    }
}
