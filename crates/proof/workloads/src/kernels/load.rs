//! A thread's use of memory: lines by their home node, in an order that does or does not let their
//! latencies overlap.

use numapilot_topology::CpuId;

use super::pinned_threads::CpuSlot;

/// Bytes of a line.
pub(super) const LINE_BYTES: f64 = 64.0;

/// How the addresses of lines follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Consecutive lines: the prefetcher overlaps them.
    Stream,
    /// Random lines with addresses known early: misses overlap as far as the processor can.
    Independent,
    /// Each address is in the previous line: the whole latency counts.
    Dependent,
}

/// Whether lines are modified, and by which threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Usage {
    /// They are not modified.
    Read,
    /// This thread alone modifies them. They return to memory when they leave its cache.
    Write,
    /// All threads modify them, and get them from each other's caches, except for this share, which
    /// is in no cache yet: see [`first_share`].
    SharedStore(f64),
    /// The same, but each thread reads a line before it writes to it. A modified line is written
    /// back to memory on its way from cache to cache.
    SharedUpdate(f64),
}

/// All threads together make `accesses` random accesses, after `before` earlier ones. Returns the
/// share of them that are the first to their line.
pub fn first_share(footprint_bytes: u64, before: f64, accesses: f64) -> f64 {
    let lines = footprint_bytes as f64 / LINE_BYTES;
    let untouched = |after: f64| lines * (-after / lines).exp();
    (untouched(before) - untouched(before + accesses)) / accesses
}

/// Lines that a thread uses in one way.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Their order.
    pub pattern: Pattern,
    /// Their number, by position of the home node.
    pub lines: Vec<f64>,
    /// Whether they are modified.
    pub usage: Usage,
    /// The memory over which random accesses are spread.
    pub footprint_bytes: u64,
    /// Whether that memory is in huge pages.
    pub huge: bool,
}

impl Access {
    /// Whether the lines are consecutive.
    pub fn is_stream(&self) -> bool {
        self.pattern == Pattern::Stream
    }
}

/// The load of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Position of the thread's node.
    pub node: usize,
    /// The CPU. Threads on the same CPU take turns.
    pub cpu: CpuId,
    /// The CPU's own time, in nanoseconds, when everything is in its first-level caches.
    pub compute_ns: f64,
    /// Its memory accesses.
    pub accesses: Vec<Access>,
}

impl Load {
    /// The load of a thread that is pinned to this CPU.
    #[must_use]
    pub fn new(slot: CpuSlot, compute_ns: f64, accesses: Vec<Access>) -> Self {
        Self { node: slot.node, cpu: slot.cpu, compute_ns, accesses }
    }
}
