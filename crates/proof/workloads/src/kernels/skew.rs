//! k10, skew: the threads of the first node stream through their own memory and take three quarters
//! of its controller's bandwidth, while all others read one array. Pages on that controller are
//! slow, even if the array is spread evenly.
//!
//! Best: weighted interleave, with one page on the busy node per four on each other node.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::area::Pages;
use super::clock::Clock;
use super::copies::Copies;
use super::init_readall::{TWIN_WORDS, read_all};
use super::loops::{compute_ns, fill, filled, part, sum};
use super::pinned_threads::PinnedThreads;
use super::prediction::Neighbour;
use super::stage::Stage;
use super::{Area, Kernel, KernelError, Options, Pathology, Place, Step};

/// The neighbour's share of its controller.
const TAKEN: f64 = 0.75;
/// Pages on every other node per page on the neighbour's, by the bandwidth that is left.
const OTHERS: usize = 4;
/// The neighbour reads the clock after this many words: 64 KiB.
const CHUNK: usize = 8 << 10;

/// See the module.
pub(super) struct Skew {
    place: Place,
    seed: u64,
    /// Threads of the neighbour, and the other threads.
    neighbours: Vec<usize>,
    others: Vec<usize>,
    node: usize,
    theirs: Vec<Area>,
    data: Copies,
    alone: Mutex<Duration>,
    left: AtomicUsize,
}

impl Skew {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        if pinned.threads() < 2 {
            return Err(KernelError::OneThread { kernel: Kernel::Skew });
        }
        let node = pinned.slot(0).node;
        let is_neighbour = |thread: &usize| match pinned.thread_nodes().len() {
            1 => *thread == 0,
            _ => pinned.slot(*thread).node == node,
        };
        let (neighbours, others): (Vec<_>, Vec<_>) = (0..pinned.threads()).partition(is_neighbour);
        let words = (options.bytes / 8) as usize;
        let data = Copies::new(words, place, pinned)?;
        let own = part(words, 0, pinned.threads()).len();
        let area = |_| Area::new(own, Place::FirstTouch, Pages::Small, pinned);
        let theirs = neighbours.iter().map(area).collect::<Result<Vec<_>, _>>()?;
        let left = AtomicUsize::new(others.len());
        let alone = Mutex::new(Duration::ZERO);
        Ok(Self { place, seed: options.seed, neighbours, others, node, theirs, data, alone, left })
    }

    /// Uses the neighbour's share of the controller until all other threads are done.
    fn disturb(&self, area: &Area, clock: &Clock) {
        let alone = *self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let words = area.words();
        let chunks = words.len().div_ceil(CHUNK).max(1);
        let each = alone.div_f64(chunks as f64 * TAKEN);
        let begun = clock.now();
        let mut done = 0u32;
        while self.left.load(Relaxed) > 0 {
            let at = done as usize % chunks * CHUNK;
            std::hint::black_box(sum(&words[at..words.len().min(at + CHUNK)]));
            done += 1;
            while clock.now().saturating_sub(begun) < each * done && self.left.load(Relaxed) > 0 {
                std::hint::spin_loop();
            }
        }
    }
}

impl Pathology for Skew {
    fn areas(&self) -> Vec<&Area> {
        vec![self.data.original()]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        let (thread, pinned) = (stage.thread(), stage.pinned());
        let own = self.neighbours.iter().position(|n| *n == thread).map(|i| &self.theirs[i]);
        self.data.fill(stage, |area, range| fill(area.words(), range, self.seed));
        if self.place == Place::WeightedInterleave {
            stage.mitigate(|| {
                let memory = pinned.memory();
                // One turn: every other node this many times, and the neighbour's node once.
                let others = memory.iter().filter(|node| **node != self.node);
                let turn: Vec<usize> = std::iter::repeat_n(others, OTHERS)
                    .flatten()
                    .chain([&self.node])
                    .copied()
                    .collect();
                self.data.original().move_pages(pinned, |page| turn[page % turn.len()])
            });
        }
        stage.prepare(|| own.inspect(|area| fill(area.words(), 0..area.words().len(), 0)));
        // Measure the bandwidth that the neighbour gets alone.
        let begun = stage.clock().now();
        stage.prepare(|| own.map(|area| std::hint::black_box(sum(area.words()))));
        let took = stage.clock().now().saturating_sub(begun);
        stage.mitigate(|| {
            *self.alone.lock().unwrap_or_else(PoisonError::into_inner) = took;
            Ok(())
        });
        let words = self.data.original().words();
        let begin = part(words.len(), thread, pinned.threads()).start;
        let all = || match own {
            Some(area) => {
                self.disturb(area, stage.clock());
                0
            }
            None => {
                let sum = sum(&words[begin..]).wrapping_add(sum(&words[..begin]));
                self.left.fetch_sub(1, Relaxed);
                sum
            }
        };
        stage.rounds(|_| {
            stage.mitigate(|| {
                self.left.store(self.others.len(), Relaxed);
                Ok(())
            });
            stage.work(all)
        })
    }

    fn expected(&self, rounds: usize) -> u64 {
        let words = self.data.original().words().len();
        filled(0..words, self.seed).wrapping_mul((self.others.len() * rounds) as u64)
    }

    fn items(&self) -> u64 {
        (self.data.original().words().len() * self.others.len()) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let words = self.data.original().words();
        let twin = &words[..TWIN_WORDS.min(words.len())];
        let pace = compute_ns(clock, twin.len(), || {
            std::hint::black_box(sum(twin));
        });
        let threads = read_all(&self.data, pinned, &self.others, pace)?;
        let neighbours = self.neighbours.len();
        let neighbour = Neighbour { node: self.node, share: TAKEN, threads: neighbours };
        Ok(vec![Step { neighbour: Some(neighbour), ..Step::of(threads) }])
    }
}
