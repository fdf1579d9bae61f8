//! The position of every word, from the numbers of CPUs, nodes and links alone.

use crate::kinds::{Mode, Scalar, Vector};
use crate::latency::LatencyBuckets;
use crate::ring;

/// Words of the header.
pub(crate) const HEADER_WORDS: usize = 64;
/// Words of a link: its two ends and its bandwidth.
pub(crate) const LINK_WORDS: usize = 4;
/// Words of a host cache line, to which the counters of each CPU and mode are aligned.
const LINE_WORDS: usize = 8;
/// Samples that a CPU's ring holds: four times those of a tenth of a second at 10,000 samples per
/// second and CPU.
const RING_SLOTS: usize = 4096;
/// Far more than is ever emulated; rejects sizes read from damaged memory.
const MOST: usize = 4096;

/// The numbers of CPUs, nodes and links, which determine the position of every word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Virtual CPUs.
    pub cpus: usize,
    /// Nodes.
    pub nodes: usize,
    /// Links; both directions count once.
    pub links: usize,
}

impl Shape {
    /// `None` when there is no CPU or no node, or when a number is absurd.
    #[must_use]
    pub fn new(cpus: usize, nodes: usize, links: usize) -> Option<Self> {
        let shape = Self { cpus, nodes, links };
        ((1..=MOST).contains(&cpus) && (1..=MOST).contains(&nodes) && links <= MOST * 4)
            .then_some(shape)
    }

    /// Size of the shared file, in bytes: a power of two, as a PCI BAR must have.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        let bytes = self.words() * size_of::<u64>();
        bytes.next_power_of_two() as u64
    }

    /// Words in use.
    #[must_use]
    pub fn words(&self) -> usize {
        self.ring(self.cpus)
    }

    pub(crate) fn node_of_cpu(&self, cpu: usize) -> usize {
        HEADER_WORDS + cpu
    }

    pub(crate) fn controller(&self, node: usize) -> usize {
        self.node_of_cpu(self.cpus) + node
    }

    pub(crate) fn link(&self, link: usize) -> usize {
        self.controller(self.nodes) + link * LINK_WORDS
    }

    pub(crate) fn counters(&self, cpu: usize, mode: Mode) -> usize {
        let block = mode as usize * self.cpus + cpu;
        self.link(self.links).next_multiple_of(LINE_WORDS) + block * self.counter_words()
    }

    /// Words of one CPU's counters in one mode.
    pub(crate) fn counter_words(&self) -> usize {
        (self.latency() + LatencyBuckets::COUNT).next_multiple_of(LINE_WORDS)
    }

    /// Start of a vector within a CPU's counters. The links come last, because all other vectors
    /// have one entry per node.
    pub(crate) fn vector(&self, vector: Vector) -> usize {
        Scalar::ALL.len() + vector as usize * self.nodes
    }

    /// Entries of a vector.
    pub(crate) fn vector_len(&self, vector: Vector) -> usize {
        match vector {
            Vector::LinkLines => 2 * self.links,
            _ => self.nodes,
        }
    }

    /// Start of the latency buckets within a CPU's counters.
    pub(crate) fn latency(&self) -> usize {
        self.vector(Vector::LinkLines) + self.vector_len(Vector::LinkLines)
    }

    pub(crate) fn ring(&self, cpu: usize) -> usize {
        self.counters(self.cpus, Mode::Kernel) + cpu * ring::words(RING_SLOTS)
    }

    pub(crate) fn ring_slots() -> usize {
        RING_SLOTS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_and_nonsense_have_no_shape() {
        assert_eq!(Shape::new(0, 1, 0), None);
        assert_eq!(Shape::new(1, 0, 0), None);
        assert_eq!(Shape::new(usize::MAX, 1, 0), None);
    }

    proptest! {
        #[test]
        fn parts_follow_each_other(cpus in 1usize..65, nodes in 1usize..17, links in 0usize..40) {
            let shape = Shape::new(cpus, nodes, links).unwrap();
            let starts = [
                0,
                shape.node_of_cpu(0),
                shape.controller(0),
                shape.link(0),
                shape.counters(0, Mode::User),
                shape.counters(cpus - 1, Mode::User),
                shape.counters(0, Mode::Kernel),
                shape.ring(0),
                shape.words(),
            ];
            prop_assert!(starts.windows(2).all(|w| w[0] <= w[1]));
            prop_assert!(shape.file_bytes().is_power_of_two());
            prop_assert!(shape.file_bytes() >= shape.words() as u64 * 8);
            prop_assert_eq!(shape.counters(0, Mode::Kernel) % 8, 0);
            prop_assert_eq!(shape.ring(0) % 8, 0);
        }
    }
}
