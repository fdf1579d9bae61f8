//! What a thread uses of memory, and how long that takes it alone: lines by their home node,
//! in an order that lets it overlap them or not.
//!
//! Caches only count for accesses at random: a stream through more than the cache finds
//! nothing in it.

use numapilot_lab_model::{Model, PREFETCH_FACTOR};
use numapilot_topology::CpuId;

use super::crew::Seat;
use super::flow::Flow;
use super::traffic::{Carriers, Counts, LINE_BYTES};

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
        let found = Found::of(model, access);
        let total: f64 = access.lines.iter().sum();
        let lines = access.lines.iter().enumerate();
        let memory: f64 =
            lines.map(|(home, lines)| lines * (latencies_ns[home] + waits_ns[home])).sum();
        let cached_ns = found.here * last_level_ns(model)
            + found.elsewhere * elsewhere_ns(model, load.node, access.usage);
        let lines_ns =
            (memory * found.nowhere() + total * cached_ns) / overlap(model, access.pattern);
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

/// Where the lines of an access are found, as shares of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// In the thread's own last level of cache.
    here: f64,
    /// In that of somebody else, who has changed them.
    elsewhere: f64,
}

impl Found {
    /// A stream through more than the cache finds nothing in it; of random accesses it serves
    /// its part.
    pub(super) fn of(model: &Model, access: &Access) -> Self {
        let nothing = Self { here: 0.0, elsewhere: 0.0 };
        let Some(last) = model.caches.last() else { return nothing };
        if access.is_stream() {
            return nothing;
        }
        let each = last.bytes as f64 / access.footprint_bytes.max(1) as f64;
        let here = each.min(1.0);
        let (others, again) = match access.usage {
            Usage::Read | Usage::Write => (0, 1.0),
            Usage::SharedStore(first) | Usage::SharedUpdate(first) => {
                (last.cache_of_cpu.iter().max().copied().unwrap_or(0), 1.0 - first)
            }
        };
        let elsewhere = (each * others as f64).min(1.0 - here);
        Self { here: here * again, elsewhere: elsewhere * again }
    }

    /// Only in memory.
    pub(super) fn nowhere(self) -> f64 {
        1.0 - self.here - self.elsewhere
    }

    /// What goes back to memory, some time or other.
    pub(super) fn goes_back(self, usage: Usage) -> f64 {
        match usage {
            Usage::Read => 0.0,
            Usage::Write | Usage::SharedStore(_) => self.nowhere(),
            Usage::SharedUpdate(_) => self.nowhere() + self.elsewhere,
        }
    }
}

/// What a line takes from a cache of another node, whichever it is; and once more to be the
/// only one who has it, when it was only read at first.
fn elsewhere_ns(model: &Model, node: usize, usage: Usage) -> f64 {
    let others = model.latency_ns[node].iter().enumerate().filter(|(other, _)| *other != node);
    let count = model.nodes().saturating_sub(1).max(1) as f64;
    let once = others.map(|(_, ns)| ns).sum::<f64>() / count;
    if matches!(usage, Usage::SharedUpdate(_)) { 2.0 * once } else { once }
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
