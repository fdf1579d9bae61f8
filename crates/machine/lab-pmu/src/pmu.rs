//! The whole memory, as its writer creates it and a reader opens it.

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::counters::CpuCounters;
use crate::kinds::Mode;
use crate::mark::NAME_BYTES;
use crate::ring::Ring;
use crate::samplers::{self, Samplers};
use crate::shape::Shape;

/// `NPLABPMU`, first byte lowest.
const MAGIC: u64 = u64::from_le_bytes(*b"NPLABPMU");
const VERSION: u64 = 4;

mod word {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const CPUS: usize = 2;
    pub const NODES: usize = 3;
    pub const LINKS: usize = 4;
    pub const TIME_NS: usize = 5;
    pub const SAMPLE_PERIOD: usize = 6;
    pub const PS_PER_CYCLE: usize = 7;
    pub const NAME: usize = 16;
    pub const SAMPLERS: usize = 32;
}

/// Why memory is not a lab PMU, or not one that this program understands.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PmuError {
    /// Other shared memory.
    #[error("this shared memory is not a lab's PMU: it does not begin with NPLABPMU")]
    OtherMemory,
    /// Written by another version.
    #[error(
        "the lab's PMU has version {found}, this program knows version {VERSION}; use the numapilot that started the lab"
    )]
    OtherVersion {
        /// The version in the header.
        found: u64,
    },
    /// Cut off or damaged.
    #[error(
        "the lab's PMU is damaged: its header says more than {bytes} bytes can hold; start the lab again"
    )]
    Damaged {
        /// Size of the memory.
        bytes: usize,
    },
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub from: u32,
    /// The other end.
    pub to: u32,
    /// Bandwidth of one direction.
    pub bytes_per_second: u64,
}

/// The lab's PMU in some memory.
#[derive(Debug)]
pub struct Pmu<M> {
    memory: M,
    shape: Shape,
}

impl<M: AsRef<[AtomicU64]>> Pmu<M> {
    /// Sets up zeroed memory. Writes the magic word last, so that a reader sees everything or
    /// nothing.
    ///
    /// # Errors
    /// [`PmuError::Damaged`] when the memory is too small for the shape.
    pub fn create(
        memory: M,
        shape: Shape,
        node_of_cpu: &[u32],
        controllers_bytes_per_second: &[u64],
        links: &[Link],
        ps_per_cycle: f64,
    ) -> Result<Self, PmuError> {
        let pmu = Self::sized(memory, shape)?;
        pmu.store(word::CPUS, shape.cpus as u64);
        pmu.store(word::NODES, shape.nodes as u64);
        pmu.store(word::LINKS, shape.links as u64);
        pmu.store(word::PS_PER_CYCLE, ps_per_cycle.to_bits());
        for (cpu, node) in node_of_cpu.iter().enumerate().take(shape.cpus) {
            pmu.store(shape.node_of_cpu(cpu), u64::from(*node));
        }
        for (node, rate) in controllers_bytes_per_second.iter().enumerate().take(shape.nodes) {
            pmu.store(shape.controller(node), *rate);
        }
        for (i, link) in links.iter().enumerate().take(shape.links) {
            pmu.store(shape.link(i), u64::from(link.from) << 32 | u64::from(link.to));
            pmu.store(shape.link(i) + 1, link.bytes_per_second);
        }
        pmu.store(word::VERSION, VERSION);
        pmu.words()[word::MAGIC].store(MAGIC, Ordering::Release);
        Ok(pmu)
    }

    /// Opens what a writer has set up.
    ///
    /// # Errors
    /// [`PmuError`] when the memory is something else, or damaged.
    pub fn open(memory: M) -> Result<Self, PmuError> {
        let bytes = size_of_val(memory.as_ref());
        let load = |i: usize| memory.as_ref().get(i).map(|w| w.load(Ordering::Acquire));
        if load(word::MAGIC) != Some(MAGIC) {
            return Err(PmuError::OtherMemory);
        }
        match load(word::VERSION) {
            Some(VERSION) => {}
            found => return Err(PmuError::OtherVersion { found: found.unwrap_or(0) }),
        }
        let count = |i: usize| usize::try_from(load(i)?).ok();
        let shape = count(word::CPUS)
            .zip(count(word::NODES))
            .zip(count(word::LINKS))
            .and_then(|((cpus, nodes), links)| Shape::new(cpus, nodes, links));
        Self::sized(memory, shape.ok_or(PmuError::Damaged { bytes })?)
    }

    fn sized(memory: M, shape: Shape) -> Result<Self, PmuError> {
        if memory.as_ref().len() < shape.words() {
            return Err(PmuError::Damaged { bytes: size_of_val(memory.as_ref()) });
        }
        Ok(Self { memory, shape })
    }

    fn words(&self) -> &[AtomicU64] {
        self.memory.as_ref()
    }

    fn load(&self, index: usize) -> u64 {
        self.words()[index].load(Ordering::Relaxed)
    }

    fn store(&self, index: usize, value: u64) {
        self.words()[index].store(value, Ordering::Relaxed);
    }

    /// Numbers of CPUs, nodes and links.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Simulated time since the machine was started, in nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.load(word::TIME_NS)
    }

    /// Moves simulated time forward to this; an earlier time has no effect.
    pub fn advance_time(&self, time_ns: u64) {
        self.words()[word::TIME_NS].fetch_max(time_ns, Ordering::Relaxed);
    }

    /// Of the accesses that missed the first level of cache, one in this many is sampled; 0 for
    /// none.
    #[must_use]
    #[inline]
    pub fn sample_period(&self) -> u64 {
        self.load(word::SAMPLE_PERIOD)
    }

    /// The programs that sample.
    #[must_use]
    pub fn samplers(&self) -> Samplers<'_> {
        let table = word::SAMPLERS..word::SAMPLERS + samplers::WORDS;
        Samplers::new(&self.words()[table], &self.words()[word::SAMPLE_PERIOD])
    }

    /// Length of a CPU cycle, in picoseconds.
    #[must_use]
    pub fn ps_per_cycle(&self) -> f64 {
        f64::from_bits(self.load(word::PS_PER_CYCLE))
    }

    /// The node of a CPU.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn node_of_cpu(&self, cpu: usize) -> Option<u32> {
        (cpu < self.shape.cpus).then(|| self.load(self.shape.node_of_cpu(cpu)) as u32)
    }

    /// Bandwidth of a node's memory controller.
    #[must_use]
    pub fn controller_bytes_per_second(&self, node: usize) -> Option<u64> {
        (node < self.shape.nodes).then(|| self.load(self.shape.controller(node)))
    }

    /// A link.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn link(&self, link: usize) -> Option<Link> {
        let at = self.shape.link(link);
        (link < self.shape.links).then(|| Link {
            from: (self.load(at) >> 32) as u32,
            to: self.load(at) as u32,
            bytes_per_second: self.load(at + 1),
        })
    }

    /// A CPU's counters in a mode.
    #[must_use]
    #[inline]
    pub fn counters(&self, cpu: usize, mode: Mode) -> Option<CpuCounters<'_>> {
        CpuCounters::new(self.words(), self.shape, cpu, mode)
    }

    /// A CPU's samples.
    #[must_use]
    pub fn ring(&self, cpu: usize) -> Option<Ring<'_>> {
        if cpu >= self.shape.cpus {
            return None;
        }
        let at = self.shape.ring(cpu);
        Ring::new(self.words().get(at..at + crate::ring::words(Shape::ring_slots()))?)
    }

    /// Sets the name of the next mark in the slot [`crate::Mark::NAMED`]. Longer names are cut at
    /// [`NAME_BYTES`].
    pub fn set_mark_name(&self, name: &str) {
        let mut bytes = [0; NAME_BYTES];
        let mut length = name.len().min(NAME_BYTES);
        while !name.is_char_boundary(length) {
            length -= 1;
        }
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        for (i, chunk) in bytes.as_chunks::<8>().0.iter().enumerate() {
            self.store(word::NAME + i, u64::from_le_bytes(*chunk));
        }
    }

    /// The name of the next mark; empty when none was set.
    #[must_use]
    pub fn mark_name(&self) -> String {
        let bytes: Vec<u8> = (0..NAME_BYTES / 8)
            .flat_map(|i| self.load(word::NAME + i).to_le_bytes())
            .take_while(|b| *b != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Scalar, Vector};

    fn memory(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    fn shape() -> Shape {
        Shape::new(4, 2, 1).unwrap()
    }

    fn created() -> Pmu<Vec<AtomicU64>> {
        let link = Link { from: 0, to: 1, bytes_per_second: 4_000_000_000 };
        let memory = memory(shape().words());
        Pmu::create(memory, shape(), &[0, 0, 1, 1], &[5, 6], &[link], 357.1).unwrap()
    }

    #[test]
    fn a_reader_finds_what_the_writer_set_up() {
        let pmu = Pmu::open(created().memory).unwrap();
        assert_eq!(pmu.shape(), shape());
        assert_eq!(pmu.node_of_cpu(2), Some(1));
        assert_eq!(pmu.node_of_cpu(4), None);
        assert_eq!(pmu.controller_bytes_per_second(1), Some(6));
        assert_eq!(pmu.link(0).map(|l| (l.from, l.to)), Some((0, 1)));
        assert!((pmu.ps_per_cycle() - 357.1).abs() < 1e-9);
    }

    #[test]
    fn every_counter_has_a_word_of_its_own() {
        let pmu = created();
        let mut value = 0;
        let blocks = || Mode::ALL.into_iter().flat_map(|mode| (0..4).map(move |cpu| (cpu, mode)));
        for (cpu, mode) in blocks() {
            let counters = pmu.counters(cpu, mode).unwrap();
            for scalar in Scalar::ALL {
                counters.add(scalar, value);
                value += 1;
            }
            for vector in Vector::ALL {
                for i in 0..2 {
                    counters.add_at(vector, i, value);
                    value += 1;
                }
            }
            counters.add_latency(100.0);
        }
        let mut expected = 0;
        for (cpu, mode) in blocks() {
            let counters = pmu.counters(cpu, mode).unwrap();
            for scalar in Scalar::ALL {
                assert_eq!(counters.get(scalar), expected, "{cpu} {scalar:?}");
                expected += 1;
            }
            for vector in Vector::ALL {
                assert_eq!(counters.vector(vector), [expected, expected + 1], "{vector:?}");
                expected += 2;
            }
            assert_eq!(counters.latencies().0.iter().sum::<u64>(), 1);
        }
        assert!(Mode::ALL.iter().all(|mode| pmu.counters(4, *mode).is_none()));
        assert!(pmu.ring(3).is_some() && pmu.ring(4).is_none());
    }

    #[test]
    fn other_memory_is_refused() {
        assert_eq!(Pmu::open(memory(4096)).unwrap_err(), PmuError::OtherMemory);
        assert_eq!(Pmu::open(memory(0)).unwrap_err(), PmuError::OtherMemory);
        let pmu = created();
        pmu.store(word::VERSION, 9);
        assert_eq!(Pmu::open(pmu.memory).unwrap_err(), PmuError::OtherVersion { found: 9 });
        let pmu = created();
        pmu.store(word::CPUS, u64::MAX);
        assert!(matches!(Pmu::open(pmu.memory), Err(PmuError::Damaged { .. })));
        let mut cut = created().memory;
        cut.truncate(100);
        assert!(matches!(Pmu::open(cut), Err(PmuError::Damaged { bytes: 800 })));
        assert!(Pmu::create(memory(9), shape(), &[], &[], &[], 1.0).is_err());
    }

    #[test]
    fn time_never_goes_back() {
        let pmu = created();
        pmu.advance_time(10);
        pmu.advance_time(5);
        assert_eq!(pmu.time_ns(), 10);
    }

    proptest! {
        #[test]
        fn names_of_any_length(name in "\\PC{0,80}") {
            let pmu = created();
            pmu.set_mark_name(&name);
            prop_assert!(name.starts_with(&pmu.mark_name()));
            prop_assert!(pmu.mark_name().len() > NAME_BYTES - 4 || pmu.mark_name() == name);
        }
    }
}
