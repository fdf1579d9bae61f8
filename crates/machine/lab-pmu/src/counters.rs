//! The counters of each virtual CPU.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::kinds::{Mode, Scalar, Vector};
use crate::latency::LatencyBuckets;
use crate::shape::Shape;

/// The counters of one CPU in one mode. Only that CPU adds to them; anyone may read them.
#[derive(Clone, Copy, Debug)]
pub struct CpuCounters<'a> {
    words: &'a [AtomicU64],
    shape: Shape,
}

impl<'a> CpuCounters<'a> {
    pub(crate) fn new(
        memory: &'a [AtomicU64],
        shape: Shape,
        cpu: usize,
        mode: Mode,
    ) -> Option<Self> {
        let words = memory.get(shape.counters(cpu, mode)..)?.get(..shape.counter_words())?;
        (cpu < shape.cpus).then_some(Self { words, shape })
    }

    /// A counter.
    #[must_use]
    pub fn get(&self, scalar: Scalar) -> u64 {
        load(self.words, scalar as usize)
    }

    /// Replaces a counter.
    #[inline]
    pub fn set(&self, scalar: Scalar, value: u64) {
        if let Some(word) = self.words.get(scalar as usize) {
            word.store(value, Relaxed);
        }
    }

    /// Adds to a counter. Not atomic, because each counter has only one writer.
    #[inline]
    pub fn add(&self, scalar: Scalar, by: u64) {
        add(self.words, scalar as usize, by);
    }

    /// An entry of a vector.
    #[must_use]
    pub fn at(&self, vector: Vector, index: usize) -> u64 {
        if index < self.shape.vector_len(vector) {
            load(self.words, self.shape.vector(vector) + index)
        } else {
            0
        }
    }

    /// A whole vector.
    #[must_use]
    pub fn vector(&self, vector: Vector) -> Vec<u64> {
        (0..self.shape.vector_len(vector)).map(|i| self.at(vector, i)).collect()
    }

    /// Adds to an entry of a vector, which has only one writer.
    #[inline]
    pub fn add_at(&self, vector: Vector, index: usize, by: u64) {
        add(self.words, self.shape.vector(vector) + index, by);
    }

    /// Counts the latency of a DRAM access.
    #[inline]
    pub fn add_latency(&self, latency_ns: f64) {
        add(self.words, self.shape.latency() + LatencyBuckets::bucket(latency_ns), 1);
    }

    /// The histogram of DRAM access latencies.
    #[must_use]
    pub fn latencies(&self) -> LatencyBuckets {
        let start = self.shape.latency();
        LatencyBuckets((0..LatencyBuckets::COUNT).map(|i| load(self.words, start + i)).collect())
    }
}

fn load(words: &[AtomicU64], index: usize) -> u64 {
    words.get(index).map_or(0, |w| w.load(Relaxed))
}

#[inline]
fn add(words: &[AtomicU64], index: usize, by: u64) {
    if let Some(word) = words.get(index) {
        word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    }
}
