//! k11, read-mostly: k1 with one write per N reads.
//!
//! Best: a copy on each node if writes are rare, because each write goes to every copy; otherwise
//! interleave. `best` chooses the faster one by the machine description.
//!
//! The upper half of a word never changes, and readers add it up. Writers count in the lower half.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use numapilot_lab_model::Model;
use numapilot_topology::NodeId;

use super::area::spread;
use super::clock::Clock;
use super::copies::Copies;
use super::init_readall::{TWIN_WORDS, read_all};
use super::load::{Access, Load, Pattern, Usage};
use super::loops::{compute_ns, part, value};
use super::pinned_threads::PinnedThreads;
use super::prediction::predict;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};
use crate::random::Draws;

/// Default number of reads per write.
pub(super) const WRITES_EVERY: u64 = 1000;
/// Reads per line.
const READS_PER_LINE: u64 = 8;
const LOW: u64 = 0xffff_ffff;

/// See the module.
pub(super) struct ReadMostly {
    every: usize,
    seed: u64,
    threads: usize,
    data: Copies,
}

impl ReadMostly {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let data = Copies::new((options.bytes / 8) as usize, place, pinned)?;
        Ok(Self { every: every(options), seed: options.seed, threads: pinned.threads(), data })
    }

    fn words(&self) -> usize {
        self.data.original().words().len()
    }

    /// Writes of each thread.
    fn writes(&self) -> usize {
        self.words() / self.every
    }
}

fn every(options: &Options) -> usize {
    usize::try_from(options.writes_every.unwrap_or(WRITES_EVERY)).unwrap_or(usize::MAX).max(1)
}

/// The faster of the two mitigations, by the machine description. Without one it counts lines: a
/// stream of reads fetches a line per eight reads, and a write fetches one line per copy.
pub(super) fn best(options: &Options, model: Option<&Model>, pinned: &PinnedThreads) -> Place {
    let (words, every) = ((options.bytes / 8) as f64, every(options));
    let nodes = pinned.thread_nodes().len();
    let access = |pattern, lines, usage| Access {
        pattern,
        lines,
        usage,
        footprint_bytes: options.bytes,
        huge: false,
    };
    let over = |nodes: &[usize], total: f64| {
        let mut lines = vec![0.0; pinned.nodes()];
        nodes.iter().for_each(|node| lines[*node] += total / nodes.len() as f64);
        lines
    };
    let (read, written) = (words / READS_PER_LINE as f64, words / every as f64);
    let seconds = |replicate: bool| {
        let load = |thread: usize| {
            let slot = pinned.slot(thread);
            let accesses = if replicate {
                let copies = over(pinned.thread_nodes(), written * nodes as f64);
                let here = over(&[slot.node], read);
                [
                    access(Pattern::Stream, here, Usage::Read),
                    access(Pattern::Independent, copies, Usage::Write),
                ]
            } else {
                let writes = over(pinned.memory(), written);
                let reads = over(pinned.memory(), read);
                [
                    access(Pattern::Stream, reads, Usage::Read),
                    access(Pattern::Independent, writes, Usage::Write),
                ]
            };
            vec![Load::new(slot, 0.0, accesses.to_vec())]
        };
        let threads: Vec<Vec<Load>> = (0..pinned.threads()).map(load).collect();
        predict(model?, &threads, None).map(|prediction| prediction.seconds)
    };
    let replicate = match (seconds(true), seconds(false)) {
        (Some(replicated), Some(interleaved)) => replicated < interleaved,
        _ => every as u64 > READS_PER_LINE * nodes as u64,
    };
    if replicate { Place::Replicate } else { Place::Interleave }
}

/// Reads some words in order. Returns the sum of their constant parts.
fn read(words: &[AtomicU64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(word.load(Relaxed) >> 32))
}

impl Pathology for ReadMostly {
    fn areas(&self) -> Vec<&Area> {
        vec![self.data.original()]
    }

    fn copies(&self) -> Option<&Copies> {
        Some(&self.data)
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        self.data.fill(stage, |area, range| {
            for (index, word) in range.clone().zip(&area.words()[range]) {
                word.store(value(self.seed, index) & !LOW, Relaxed);
            }
        });
        let thread = stage.thread();
        let begin = part(self.words(), thread, self.threads).start;
        let work = |words: &[AtomicU64], copies: &[(Option<NodeId>, &[AtomicU64])]| {
            let mut draws = Draws::of(self.seed, thread as u64);
            let mut sum = 0u64;
            let mut reads = 0;
            for part in [&words[begin..], &words[..begin]] {
                let mut rest = part;
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.len().min(self.every - reads));
                    sum = sum.wrapping_add(read(now));
                    reads += now.len();
                    rest = later;
                    if reads == self.every {
                        reads = 0;
                        let index = draws.below(words.len() as u64) as usize;
                        for (_, copy) in copies {
                            copy[index].fetch_add(1, Relaxed);
                        }
                    }
                }
            }
            sum
        };
        self.data.for_each_copy(stage, |copies| {
            let sum =
                self.data.read(stage, |words| stage.rounds(|_| stage.work(|| work(words, copies))));
            stage.prepare(|| match thread {
                // Every write has reached every copy.
                0 => copies.iter().fold(sum, |sum, (_, copy)| {
                    let counted = copy.iter().map(|word| word.load(Relaxed) & LOW);
                    sum.wrapping_add(counted.fold(0, u64::wrapping_add))
                }),
                _ => sum,
            })
        })
    }

    fn expected(&self, rounds: usize) -> u64 {
        let read = (0..self.words())
            .fold(0u64, |sum, index| sum.wrapping_add(value(self.seed, index) >> 32));
        let written = self.writes() * self.threads * self.data.count();
        let once = read.wrapping_mul(self.threads as u64).wrapping_add(written as u64);
        once.wrapping_mul(rounds as u64)
    }

    fn items(&self) -> u64 {
        ((self.words() + self.writes()) * self.threads) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let words = self.words();
        let twin = &self.data.original().words()[..TWIN_WORDS.min(words)];
        let pace = compute_ns(clock, twin.len(), || {
            std::hint::black_box(read(twin));
        });
        let mut threads =
            read_all(&self.data, pinned, &(0..self.threads).collect::<Vec<_>>(), pace)?;
        let writes = self.writes() as f64 / self.threads as f64;
        for homes in self.data.all_homes(pinned)? {
            let write = Access {
                pattern: Pattern::Independent,
                lines: spread(&homes, pinned, writes),
                usage: Usage::Write,
                footprint_bytes: (words * 8) as u64,
                huge: false,
            };
            threads.iter_mut().flatten().for_each(|load| load.accesses.push(write.clone()));
        }
        Ok(vec![Step::of(threads)])
    }
}
