//! k7, burst: new memory that the main thread touches first and all threads scatter into. It is
//! returned at once, and the next burst begins, as in the integer sort IS. A burst ends before
//! anything that samples and moves pages can help.
//!
//! Best: an interleave policy set before the first touch. `late` is the most that moving can
//! achieve: half of each burst is over by then.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use super::area::{Pages, page_words};
use super::clock::Clock;
use super::cycle::Cycle;
use super::init_readall::TWIN_WORDS;
use super::load::{Access, Load, Pattern, Usage, first_share};
use super::loops::{compute_ns, part, value};
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};
use crate::random::mix;

/// Number of bursts.
const BURSTS: usize = 2;
/// One word in this many is written in a burst.
const ONE_IN: usize = 4;
/// Time between two bursts.
const IDLE: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Burst {
    place: Place,
    seed: u64,
    threads: usize,
    cycle: Cycle,
    area: Area,
}

impl Burst {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let cycle = Cycle::within((options.bytes / 8) as usize);
        let area = Area::new(cycle.slots(), place, Pages::Small, pinned)?;
        Ok(Self { place, seed: options.seed, threads: pinned.threads(), cycle, area })
    }

    /// The indices that a thread writes in half 0 or 1 of a burst.
    fn share(&self, thread: usize, half: usize) -> std::ops::Range<usize> {
        let all = self.cycle.slots() / ONE_IN;
        let at = |n: usize| all * n / (2 * self.threads);
        at(2 * thread + half)..at(2 * thread + half + 1)
    }

    fn seed_of(&self, burst: usize) -> u64 {
        self.seed ^ mix(burst as u64)
    }
}

/// Writes values to positions all over the words, each position at most once.
fn scatter(words: &[AtomicU64], cycle: Cycle, range: std::ops::Range<usize>, seed: u64) {
    for index in range {
        words[cycle.scattered(index as u64) as usize].store(value(seed, index) | 1, Relaxed);
    }
}

fn digest(slot: u64, word: u64) -> u64 {
    mix(word ^ slot)
}

impl Pathology for Burst {
    fn areas(&self) -> Vec<&Area> {
        vec![&self.area]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        let (words, pinned) = (self.area.words(), stage.pinned());
        let mut own = part(words.len(), stage.thread(), self.threads);
        if stage.thread() + 1 == self.threads {
            // The last thread also takes the remainder of the division into whole pages.
            own.end = words.len();
        }
        let burst = |burst: usize| {
            stage.mitigate(|| {
                if burst > 0 {
                    thread::sleep(IDLE);
                }
                self.area.discard()
            });
            stage.prepare(|| {
                let touched = match self.place {
                    Place::Local => own.clone(),
                    _ if stage.thread() == 0 => 0..words.len(),
                    _ => 0..0,
                };
                touched.step_by(page_words()).for_each(|word| words[word].store(0, Relaxed));
            });
            let scatter = |half| {
                let share = self.share(stage.thread(), half);
                scatter(words, self.cycle, share, self.seed_of(burst));
            };
            if self.place == Place::Late {
                stage.work(|| scatter(0));
                stage.work(|| {
                    if stage.thread() == 0 {
                        let nodes = pinned.memory();
                        let home = |page: usize| nodes[page % nodes.len()];
                        stage.note(self.area.move_pages(pinned, home));
                    }
                });
                stage.work(|| scatter(1));
            } else {
                stage.work(|| {
                    scatter(0);
                    scatter(1);
                });
            }
            stage.prepare(|| {
                let written = own.clone().map(|slot| (slot, words[slot].load(Relaxed)));
                let digests = written.filter(|(_, word)| *word != 0);
                digests.fold(0u64, |sum, (slot, word)| sum.wrapping_add(digest(slot as u64, word)))
            })
        };
        stage.rounds(|round| {
            let bursts = (0..BURSTS).map(|at| burst(round * BURSTS + at));
            bursts.fold(0, u64::wrapping_add)
        })
    }

    fn expected(&self, rounds: usize) -> u64 {
        let written = self.share(self.threads - 1, 1).end;
        let one = |burst: usize| {
            (0..written).fold(0u64, |sum, index| {
                let word = value(self.seed_of(burst), index) | 1;
                sum.wrapping_add(digest(self.cycle.scattered(index as u64), word))
            })
        };
        (0..BURSTS * rounds).map(one).fold(0, u64::wrapping_add)
    }

    fn items(&self) -> u64 {
        (self.share(self.threads - 1, 1).end * BURSTS) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let twin: Vec<AtomicU64> = (0..TWIN_WORDS).map(|_| AtomicU64::new(0)).collect();
        let small = Cycle::within(TWIN_WORDS);
        let pace = compute_ns(clock, TWIN_WORDS, || scatter(&twin, small, 0..TWIN_WORDS, 0));
        let footprint_bytes = (self.area.words().len() * 8) as u64;
        let half_step = |half: usize| {
            let late = half == 0 && self.place == Place::Late;
            let stores = (self.share(0, half).len() * self.threads) as f64;
            // Pages that were moved are in no cache.
            let before = if self.place == Place::Late { 0.0 } else { half as f64 * stores };
            let first = first_share(footprint_bytes, before, stores);
            let load = |thread: usize| {
                let stores = (self.share(thread, 0).len()) as f64;
                let mut lines = self.area.spread(pinned, stores)?;
                if late {
                    // Before the move, all pages were where the main thread touched them.
                    lines.fill(0.0);
                    lines[pinned.slot(0).node] = stores;
                }
                let access = Access {
                    pattern: Pattern::Independent,
                    lines,
                    usage: Usage::SharedStore(first),
                    footprint_bytes,
                    huge: false,
                };
                Ok(Load::new(pinned.slot(thread), pace * stores, vec![access]))
            };
            let loads: Result<Vec<Load>, KernelError> = (0..self.threads).map(load).collect();
            Ok::<_, KernelError>(Step::once(loads?).times(BURSTS as f64))
        };
        Ok(vec![half_step(0)?, half_step(1)?])
    }
}
