//! What a thread uses of memory, and how long that takes it alone: lines by their home node,
//! in an order that lets it overlap them or not.
//!
//! Caches only count for accesses at random: a stream through more than the cache finds
//! nothing in it.

use numapilot_lab_model::{Model, PREFETCH_FACTOR};
use numapilot_topology::CpuId;

use super::crew::Seat;
use super::flow::Flow;
use super::traffic::{Carriers, Counts};

/// Lines of a page of 4 KiB.
const PAGE_LINES: f64 = 64.0;
/// Bytes that an entry of the TLB reaches.
const SMALL_PAGE: u64 = 4 << 10;
const HUGE_PAGE: u64 = 2 << 20;

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

/// Lines that a thread uses in one way.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// In which order.
    pub pattern: Pattern,
    /// How many, by position of their home node.
    pub lines: Vec<f64>,
    /// Whether they are modified, and so go back later.
    pub written: bool,
    /// What random accesses are spread over.
    pub footprint_bytes: u64,
    /// Whether it lies in huge pages.
    pub huge: bool,
}

impl Access {
    fn is_stream(&self) -> bool {
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
    /// What a thread does that sits there.
    #[must_use]
    pub fn new(seat: Seat, compute_ns: f64, accesses: Vec<Access>) -> Self {
        Self { node: seat.node, cpu: seat.cpu, compute_ns, accesses }
    }
}

/// Lines in flight that a thread can have.
fn overlap(model: &Model, pattern: Pattern) -> f64 {
    match pattern {
        Pattern::Stream => model.memory_level_parallelism * PREFETCH_FACTOR,
        Pattern::Independent => model.memory_level_parallelism,
        Pattern::Dependent => 1.0,
    }
}

/// What a load is for controllers and links. A stream's lines come while the thread computes;
/// for all others it waits, and its streams with it. `waits_ns`: what a line waits in queues,
/// by home node.
pub fn flows(model: &Model, carriers: &Carriers, load: &Load, waits_ns: &[f64]) -> [Flow; 2] {
    let latencies_ns = &model.latency_ns[load.node];
    let (mut streamed_ns, mut waited_ns) = (0.0, 0.0);
    for access in &load.accesses {
        let cached = cached_share(model, access);
        let total: f64 = access.lines.iter().sum();
        let lines = access.lines.iter().enumerate();
        let memory: f64 =
            lines.map(|(home, lines)| lines * (latencies_ns[home] + waits_ns[home])).sum();
        let lines_ns = (memory * (1.0 - cached) + total * cached * last_level_ns(model))
            / overlap(model, access.pattern);
        waited_ns += total * walk_ns(model, access);
        match access.pattern {
            Pattern::Stream => streamed_ns += lines_ns,
            Pattern::Independent | Pattern::Dependent => waited_ns += lines_ns,
        }
    }
    let flow = |counts: Counts, alone_ns: f64| {
        let mut seconds = vec![0.0; carriers.count()];
        carriers.add(&mut seconds, model, load, counts);
        let uses = seconds.into_iter().enumerate().filter(|(_, seconds)| *seconds > 0.0).collect();
        let lines = load
            .accesses
            .iter()
            .filter(|access| counts(access))
            .flat_map(|access| &access.lines)
            .sum();
        Flow { uses, lines, alone_seconds: alone_ns * 1e-9 }
    };
    [
        flow(Access::is_stream, streamed_ns.max(load.compute_ns)),
        flow(|access| !access.is_stream(), waited_ns),
    ]
}

/// The share of random accesses that the last level of cache serves.
pub(super) fn cached_share(model: &Model, access: &Access) -> f64 {
    let bytes = model.caches.last().map_or(0, |cache| cache.bytes);
    match access.pattern {
        Pattern::Stream => 0.0,
        Pattern::Independent | Pattern::Dependent => {
            (bytes as f64 / access.footprint_bytes.max(1) as f64).min(1.0)
        }
    }
}

fn last_level_ns(model: &Model) -> f64 {
    model.caches.last().map_or(0.0, |cache| cache.latency_cycles * model.ps_per_cycle / 1000.0)
}

/// What an access waits for address translation, on average.
fn walk_ns(model: &Model, access: &Access) -> f64 {
    let Some(tlb) = &model.tlb else { return 0.0 };
    let (entries, page) =
        if access.huge { (tlb.entries_2m, HUGE_PAGE) } else { (tlb.entries_4k, SMALL_PAGE) };
    let missing = match access.pattern {
        Pattern::Stream if access.huge => 0.0,
        Pattern::Stream => 1.0 / PAGE_LINES,
        Pattern::Independent | Pattern::Dependent => {
            let reach = u64::from(entries) * page;
            (1.0 - reach as f64 / access.footprint_bytes.max(1) as f64).max(0.0)
        }
    };
    missing * tlb.walk_cycles * model.ps_per_cycle / 1000.0
}
