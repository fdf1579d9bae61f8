//! k12, pipe: a producer on the first node writes messages. A consumer half-way around the machine
//! processes them, one buffer behind. Each message contains the position of the next, so the
//! consumer waits for every line, while the producer's stores run ahead.
//!
//! Best: the buffers on the consumer's node, or both threads on one node. Moving a buffer to the
//! node that uses it next costs more than it saves.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::area::{Pages, lines};
use super::clock::Clock;
use super::cycle::Cycle;
use super::init_readall::TWIN_WORDS;
use super::load::{Access, Load, Pattern, Usage};
use super::loops::{compute_ns, value};
use super::pinned_threads::{CpuSlot, PinnedThreads};
use super::stage::Stage;
use super::{Area, Kernel, KernelError, Options, Pathology, Place, Step};
use crate::random::mix;

/// Number of buffers that are filled.
const ROUNDS: usize = 4;
/// Words of a message: one line.
const MESSAGE: usize = 8;

/// See the module.
pub(super) struct Pipe {
    place: Place,
    seed: u64,
    cycle: Cycle,
    buffers: [Area; 2],
    /// The consumer thread and its CPU.
    consumer: usize,
    slot: CpuSlot,
}

impl Pipe {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        if pinned.threads() < 2 {
            return Err(KernelError::OneThread { kernel: Kernel::Pipe });
        }
        let cycle = Cycle::within((options.bytes / 8) as usize / 2 / MESSAGE);
        let area = || Area::new(cycle.slots() * MESSAGE, place, Pages::Small, pinned);
        let here = pinned.slot(0).node;
        let far = pinned.thread_nodes()[pinned.thread_nodes().len() / 2];
        let on =
            |node: usize| (1..pinned.threads()).find(|thread| pinned.slot(*thread).node == node);
        let consumer = on(far).unwrap_or(1);
        let slot = match place {
            Place::Together => pinned.slot(on(here).unwrap_or(0)),
            _ => pinned.slot(consumer),
        };
        let buffers = [area()?, area()?];
        Ok(Self { place, seed: options.seed, cycle, buffers, consumer, slot })
    }

    fn payload(&self, round: usize, message: usize) -> u64 {
        value(self.seed ^ mix(round as u64), message)
    }

    /// Moves a buffer, if the placement is `bounce`.
    fn bounce(&self, stage: &Stage<'_>, buffer: &Area, node: usize) {
        if self.place == Place::Bounce {
            stage.note(buffer.move_pages(stage.pinned(), |_| node));
        }
    }
}

fn produce(words: &[AtomicU64], cycle: Cycle, payload: impl Fn(usize) -> u64) {
    for (index, message) in words.chunks_exact(MESSAGE).enumerate() {
        let payload = payload(index);
        message[0].store(cycle.next(index as u64), Relaxed);
        message[1..].iter().for_each(|word| word.store(payload, Relaxed));
    }
}

fn consume(words: &[AtomicU64], messages: usize) -> u64 {
    let (mut sum, mut at) = (0u64, 0);
    for _ in 0..messages {
        let Some([next, payload, ..]) = words.get(at..at + MESSAGE) else { return sum };
        sum = sum.wrapping_add(payload.load(Relaxed));
        at = next.load(Relaxed) as usize * MESSAGE;
    }
    sum
}

impl Pathology for Pipe {
    fn areas(&self) -> Vec<&Area> {
        self.buffers.iter().collect()
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        let thread = stage.thread();
        if thread == self.consumer {
            stage.pin_to(self.slot);
        }
        let first = match self.place {
            Place::Consumer => [self.consumer; 2],
            Place::Local => [0, self.consumer],
            _ => [0; 2],
        };
        stage.prepare(|| {
            for (buffer, _) in self.buffers.iter().zip(first).filter(|(_, who)| *who == thread) {
                buffer.words().iter().for_each(|word| word.store(0, Relaxed));
            }
        });
        let buffers = |round: usize| {
            let (now, before) = (&self.buffers[round % 2], &self.buffers[(round + 1) % 2]);
            stage.work(|| {
                if thread == 0 && round < ROUNDS {
                    self.bounce(stage, now, stage.slot().node);
                    produce(now.words(), self.cycle, |message| self.payload(round, message));
                }
                if thread == self.consumer && round > 0 {
                    self.bounce(stage, before, self.slot.node);
                    return consume(before.words(), self.cycle.slots());
                }
                0
            })
        };
        stage.rounds(|_| (0..=ROUNDS).map(buffers).fold(0, u64::wrapping_add))
    }

    fn expected(&self, rounds: usize) -> u64 {
        let round = |round| {
            (0..self.cycle.slots())
                .fold(0u64, |sum, message| sum.wrapping_add(self.payload(round, message)))
        };
        (0..ROUNDS).map(round).fold(0, u64::wrapping_add).wrapping_mul(rounds as u64)
    }

    fn items(&self) -> u64 {
        (self.cycle.slots() * ROUNDS) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let small = Cycle::within(TWIN_WORDS / MESSAGE);
        let twin: Vec<AtomicU64> = (0..TWIN_WORDS).map(|_| AtomicU64::new(0)).collect();
        let produced = compute_ns(clock, small.slots(), || produce(&twin, small, |i| value(0, i)));
        let consumed = compute_ns(clock, small.slots(), || {
            std::hint::black_box(consume(&twin, small.slots()));
        });
        let messages = self.cycle.slots();
        let words = messages * MESSAGE;
        let use_of = |buffer: usize, slot: CpuSlot, pattern, usage, pace: f64| {
            let homes = match self.place {
                Place::Bounce => vec![Some(slot.node); self.buffers[buffer].homes(pinned)?.len()],
                _ => self.buffers[buffer].homes(pinned)?,
            };
            let access = Access {
                pattern,
                lines: lines(&homes, 0..words, pinned.nodes()),
                usage,
                footprint_bytes: (words * 8) as u64,
                huge: false,
            };
            Ok::<_, KernelError>(Load::new(slot, pace * messages as f64, vec![access]))
        };
        let write =
            |buffer| use_of(buffer, pinned.slot(0), Pattern::Stream, Usage::Write, produced);
        let read = |buffer| use_of(buffer, self.slot, Pattern::Dependent, Usage::Read, consumed);
        let mut steps = Vec::new();
        for round in 0..=ROUNDS {
            let mut loads = Vec::new();
            if round < ROUNDS {
                loads.push(write(round % 2)?);
            }
            if round > 0 {
                loads.push(read((round + 1) % 2)?);
            }
            steps.push(Step::once(loads));
        }
        Ok(steps)
    }
}
