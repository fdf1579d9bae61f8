//! What a thread uses of memory: lines by their home node, in an order that lets it overlap them
//! or not.

use numapilot_topology::CpuId;

use super::pinned_threads::CpuSlot;

/// Bytes of a line.
pub(super) const LINE_BYTES: f64 = 64.0;

/// How the addresses of lines follow from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Line after line: the prefetcher overlaps them.
    Stream,
    /// At random, known early: misses overlap as far as the processor can.
    Independent,
    /// Each address is in the line before: the whole latency counts.
    Dependent,
}

/// Whether lines are modified, and by whom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Usage {
    /// They are not.
    Read,
    /// By this thread alone: they go back to memory when they leave its cache.
    Write,
    /// By all threads, whose caches have them from each other, but for this share, which is in no
    /// cache yet: see [`first_share`].
    SharedStore(f64),
    /// The same, and each thread reads a line before it writes it: a modified line goes back to
    /// memory on its way from cache to cache.
    SharedUpdate(f64),
}

/// Of so many accesses of all threads to lines at random, after so many before them, the share that
/// is the first to its line.
pub fn first_share(footprint_bytes: u64, before: f64, accesses: f64) -> f64 {
    let lines = footprint_bytes as f64 / LINE_BYTES;
    let untouched = |after: f64| lines * (-after / lines).exp();
    (untouched(before) - untouched(before + accesses)) / accesses
}

/// Lines that a thread uses in one way.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// In which order.
    pub pattern: Pattern,
    /// How many, by position of their home node.
    pub lines: Vec<f64>,
    /// Whether they are modified.
    pub usage: Usage,
    /// What random accesses are spread over.
    pub footprint_bytes: u64,
    /// Whether it lies in huge pages.
    pub huge: bool,
}

impl Access {
    /// Whether lines come one after the other.
    pub fn is_stream(&self) -> bool {
        self.pattern == Pattern::Stream
    }
}

/// What one thread does.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Position of the node it runs on.
    pub node: usize,
    /// The CPU: threads on one CPU take turns.
    pub cpu: CpuId,
    /// What the CPU itself takes, in nanoseconds, when everything is in its first caches.
    pub compute_ns: f64,
    /// What it uses.
    pub accesses: Vec<Access>,
}

impl Load {
    /// The load of a thread that is pinned there.
    #[must_use]
    pub fn new(slot: CpuSlot, compute_ns: f64, accesses: Vec<Access>) -> Self {
        Self { node: slot.node, cpu: slot.cpu, compute_ns, accesses }
    }
}
