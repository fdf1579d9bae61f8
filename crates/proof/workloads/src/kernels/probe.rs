//! k3, probe: a hash table that the main thread fills and all threads read. Each probe finds the
//! key of the next, so a thread waits for the whole latency every time.
//!
//! Keys are dense and hash to themselves, as integer keys do in most tables. A slot holds a key and
//! the next key to look up. Best: a copy of the table on each node.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::area::spread;
use super::clock::Clock;
use super::copies::Copies;
use super::cycle::Cycle;
use super::init_readall::TWIN_WORDS;
use super::load::{Access, Load, Pattern, Usage};
use super::loops::compute_ns;
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};

/// Words of a slot.
const SLOT: usize = 2;
/// Each thread looks up one key in this many.
const ONE_IN: usize = 8;

/// See the module.
pub(super) struct Probe {
    cycle: Cycle,
    seed: u64,
    threads: usize,
    table: Copies,
}

impl Probe {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let cycle = Cycle::within((options.bytes / 8) as usize / SLOT);
        let table = Copies::new(cycle.slots() * SLOT, place, pinned)?;
        Ok(Self { cycle, seed: options.seed, threads: pinned.threads(), table })
    }

    fn probes(&self) -> usize {
        (self.cycle.slots() / ONE_IN).max(1)
    }

    /// The first key that a thread looks up.
    fn first(&self, thread: usize) -> u64 {
        let slots = self.cycle.slots();
        ((thread * slots / self.threads) as u64).wrapping_add(self.seed) & (slots as u64 - 1)
    }
}

/// Writes the slots of a range of words.
fn write(words: &[AtomicU64], range: Range<usize>, cycle: Cycle) {
    for word in range.step_by(SLOT) {
        let key = (word / SLOT) as u64;
        words[word].store(key, Relaxed);
        words[word + 1].store(cycle.next(key), Relaxed);
    }
}

/// Looks up a key, then the key found with it, and so on. Returns the sum of the keys.
fn follow(words: &[AtomicU64], mut wanted: u64, probes: usize) -> u64 {
    let mut sum = 0u64;
    for _ in 0..probes {
        let slot = wanted as usize * SLOT;
        let [key, next] = &words[slot..slot + SLOT] else { return sum };
        let found = key.load(Relaxed);
        if found != wanted {
            return sum;
        }
        sum = sum.wrapping_add(found);
        wanted = next.load(Relaxed);
    }
    sum
}

impl Pathology for Probe {
    fn areas(&self) -> Vec<&Area> {
        vec![self.table.original()]
    }

    fn copies(&self) -> Option<&Copies> {
        Some(&self.table)
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        self.table.fill(stage, |area, range| write(area.words(), range, self.cycle));
        self.table.read(stage, |words| {
            let look = || follow(words, self.first(stage.thread()), self.probes());
            stage.rounds(|_| stage.work(look))
        })
    }

    fn expected(&self, rounds: usize) -> u64 {
        let walk = |thread: usize| {
            let mut key = self.first(thread);
            (0..self.probes()).fold(0u64, |sum, _| {
                let sum = sum.wrapping_add(key);
                key = self.cycle.next(key);
                sum
            })
        };
        (0..self.threads).map(walk).fold(0, u64::wrapping_add).wrapping_mul(rounds as u64)
    }

    fn items(&self) -> u64 {
        (self.probes() * self.threads) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let small = Cycle::within(TWIN_WORDS / SLOT);
        let twin: Vec<AtomicU64> = (0..small.slots() * SLOT).map(|_| AtomicU64::new(0)).collect();
        write(&twin, 0..twin.len(), small);
        let pace = compute_ns(clock, small.slots(), || {
            std::hint::black_box(follow(&twin, 0, small.slots()));
        });
        let probes = self.probes() as f64;
        let load = |thread: usize| {
            let slot = pinned.slot(thread);
            let access = Access {
                pattern: Pattern::Dependent,
                lines: spread(&self.table.homes(slot.node, pinned)?, pinned, probes),
                usage: Usage::Read,
                footprint_bytes: size_of_val(self.table.original().words()) as u64,
                huge: false,
            };
            Ok(Load::new(slot, pace * probes, vec![access]))
        };
        let loads: Result<Vec<Load>, KernelError> = (0..self.threads).map(load).collect();
        Ok(vec![Step::once(loads?)])
    }
}
