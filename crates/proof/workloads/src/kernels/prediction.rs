//! How long a kernel should take: `t = max(controller, link, (latency + queues) / MLP)`.
//!
//! Every line that threads fetch from memory, and every modified line that goes back, takes
//! its time at the controller of its home node and at each link on the way. Meanwhile a
//! thread waits for as much of the latency as it cannot overlap, and in the queues that form
//! at controllers and links the longer the shorter t is. The slowest of all these is
//! what the kernel takes. Nothing here measures or calls the system: machine and traffic
//! in, seconds out.
//!
//! Source of the figures: the machine description, as the lab's model reads it
//! (`numapilot_lab_model::Model`). Caches only count for accesses at random: a stream
//! through more than the cache finds nothing in it.

use std::collections::BTreeMap;
use std::fmt;

use numapilot_lab_model::{Model, PREFETCH_FACTOR};
use numapilot_topology::CpuId;

use super::crew::Seat;
use super::traffic::Traffic;

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

/// What is used from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The memory controller of a node.
    Controller(usize),
    /// The link from a node to another.
    Link(usize, usize),
    /// A thread that runs on a node, which waits for memory or computes.
    Thread(usize),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(node) => write!(f, "controller {node}"),
            Self::Link(from, to) => write!(f, "link {from}>{to}"),
            Self::Thread(node) => write!(f, "latency on {node}"),
        }
    }
}

/// A predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// How long.
    pub seconds: f64,
    /// What decides it.
    pub bound: Bound,
}

/// The time of loads that begin together, up to the end of the last one; `None` when there
/// are none, or they name a node that the machine does not have.
#[must_use]
pub fn predict(model: &Model, loads: &[Load]) -> Option<Prediction> {
    solve(model, loads, None)
}

/// Threads that stream through memory of one node beside the loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// The node.
    pub node: usize,
    /// The share of its controller that they want.
    pub share: f64,
    /// How many they are.
    pub threads: usize,
}

/// The same beside a neighbour. When both together want more than the controller has, they
/// get of it as they have lines in flight there, and the neighbour not more than it wants.
#[must_use]
pub fn predict_beside(model: &Model, loads: &[Load], beside: Neighbour) -> Option<Prediction> {
    let Neighbour { node, share, threads } = beside;
    let waiting = solve(model, loads, Some((node, share)))?;
    let there = |load: &Load| {
        let lines = || load.accesses.iter().map(|access| &access.lines);
        let all: f64 = lines().flatten().sum();
        let there: f64 = lines().filter_map(|lines| lines.get(node)).sum();
        if all > 0.0 { there / all } else { 0.0 }
    };
    // In units of the lines that a thread has in flight.
    let others: f64 = loads.iter().map(there).sum();
    let left = 1.0 - share.min(threads as f64 / (threads as f64 + others));
    let shared = Traffic::of(model, loads).controller_seconds(node)? / left;
    if shared <= waiting.seconds {
        return Some(waiting);
    }
    Some(Prediction { seconds: shared, bound: Bound::Controller(node) })
}

/// Halvings of the interval that the time lies in.
const HALVINGS: u32 = 40;

/// Threads wait the longer the less time all their lines have, and the work takes as long as
/// the threads: the one time that leaves just as much waiting as makes it up.
fn solve(model: &Model, loads: &[Load], taken: Option<(usize, f64)>) -> Option<Prediction> {
    let nodes = model.nodes();
    let fits = |load: &Load| {
        load.node < nodes && load.accesses.iter().all(|access| access.lines.len() == nodes)
    };
    if !loads.iter().all(fits) {
        return None;
    }
    let slowest = |a: &Prediction, b: &Prediction| a.seconds.total_cmp(&b.seconds);
    let is_stream = |access: &Access| access.pattern == Pattern::Stream;
    let streams = Traffic::of_those(model, loads, is_stream);
    let streams_ns = streams.bounds().map(|bound| bound.seconds).fold(0.0, f64::max) * 1e9;
    let all = Traffic::of(model, loads);
    let threads = |within_seconds: f64| {
        let waits_ns = all.waits_ns(within_seconds, taken);
        let mut cpus: BTreeMap<CpuId, Prediction> = BTreeMap::new();
        for load in loads {
            let bound = Bound::Thread(load.node);
            cpus.entry(load.cpu).or_insert(Prediction { seconds: 0.0, bound }).seconds +=
                thread_ns(model, load, streams_ns, &waits_ns[load.node]) * 1e-9;
        }
        cpus.into_values().max_by(slowest)
    };
    let bound = all.bounds().max_by(slowest)?;
    let Some(mut slow) = threads(bound.seconds).filter(|slow| slow.seconds > bound.seconds) else {
        return Some(bound);
    };
    let mut least = bound.seconds;
    for _ in 0..HALVINGS {
        let middle = least.midpoint(slow.seconds);
        match threads(middle) {
            Some(at) if at.seconds > middle => least = middle,
            Some(at) => slow = Prediction { seconds: middle, ..at },
            None => break,
        }
    }
    Some(slow)
}

/// Lines in flight that a thread can have.
fn overlap(model: &Model, pattern: Pattern) -> f64 {
    match pattern {
        Pattern::Stream => model.memory_level_parallelism * PREFETCH_FACTOR,
        Pattern::Independent => model.memory_level_parallelism,
        Pattern::Dependent => 1.0,
    }
}

/// A stream's lines come while the thread computes; for all others it waits, and its streams
/// with it: these take their time (`streams_ns`, of all threads) besides. `waits_ns`: what a
/// line waits in queues, by home node.
fn thread_ns(model: &Model, load: &Load, streams_ns: f64, waits_ns: &[f64]) -> f64 {
    let (mut streamed, mut waited) = (0.0, 0.0);
    let latencies_ns = &model.latency_ns[load.node];
    for access in &load.accesses {
        let cached = cached_share(model, access);
        let total: f64 = access.lines.iter().sum();
        let lines = access.lines.iter().enumerate();
        let memory: f64 =
            lines.map(|(home, lines)| lines * (latencies_ns[home] + waits_ns[home])).sum();
        let lines_ns = (memory * (1.0 - cached) + total * cached * last_level_ns(model))
            / overlap(model, access.pattern);
        waited += total * walk_ns(model, access);
        match access.pattern {
            Pattern::Stream => streamed += lines_ns,
            Pattern::Independent | Pattern::Dependent => waited += lines_ns,
        }
    }
    let alone = streamed.max(load.compute_ns);
    let mixed = streamed > 0.0 && load.accesses.iter().any(|a| a.pattern != Pattern::Stream);
    if mixed { alone.max(streams_ns) + waited } else { alone + waited }
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

#[cfg(test)]
mod tests {
    use numapilot_lab_model::{Cache, Link, MemoryRange};

    use super::*;

    /// Two nodes with a CPU each: 100 ns here, 200 ns there, 6.4 GB/s, a link of 3.2 GB/s.
    fn model() -> Model {
        Model {
            title: "two nodes".to_owned(),
            ps_per_cycle: 500.0,
            base_cpi: 1.0,
            memory_level_parallelism: 5.0,
            node_of_cpu: vec![0, 1],
            ranges: vec![MemoryRange { node: 0, start: 0, bytes: 1 }],
            caches: vec![Cache {
                bytes: 1 << 20,
                ways: 16,
                latency_cycles: 40.0,
                cache_of_cpu: vec![0, 1],
            }],
            tlb: None,
            latency_ns: vec![vec![100.0, 200.0], vec![200.0, 100.0]],
            controllers_gb_per_s: vec![6.4, 6.4],
            links: vec![Link { from: 0, to: 1, gb_per_s: 3.2 }],
            bandwidth_scale: 1.0,
        }
    }

    fn load(node: usize, pattern: Pattern, lines: [f64; 2], written: bool) -> Load {
        let footprint_bytes = u64::MAX;
        let access =
            Access { pattern, lines: lines.to_vec(), written, footprint_bytes, huge: false };
        Load { node, cpu: CpuId(node as u32), compute_ns: 0.0, accesses: vec![access] }
    }

    fn predicted_on(model: &Model, loads: &[Load]) -> (f64, Bound) {
        let prediction = predict(model, loads).unwrap();
        ((prediction.seconds * 1e9).round(), prediction.bound)
    }

    fn predicted(loads: &[Load]) -> (f64, Bound) {
        predicted_on(&model(), loads)
    }

    /// The same on a machine with so much bandwidth that nothing waits in a queue.
    fn without_queues(loads: &[Load]) -> (f64, Bound) {
        let mut model = model();
        model.controllers_gb_per_s.fill(1e9);
        model.links[0].gb_per_s = 1e9;
        predicted_on(&model, loads)
    }

    #[test]
    fn one_thread_waits_for_latency() {
        assert_eq!(
            without_queues(&[load(0, Pattern::Dependent, [0.0, 10.0], false)]),
            (2000.0, Bound::Thread(0))
        );
        assert_eq!(
            without_queues(&[load(1, Pattern::Independent, [10.0, 0.0], false)]),
            (400.0, Bound::Thread(1))
        );
    }

    #[test]
    fn all_threads_at_one_node_wait_for_its_link_or_its_controller() {
        let stream = |node, lines| load(node, Pattern::Stream, lines, false);
        // 10 ns a line at the controller, 20 ns at the link.
        assert_eq!(predicted(&[stream(0, [1000.0, 0.0]), stream(1, [1000.0, 0.0])]).0, 20_000.0);
        let three: Vec<Load> =
            (0..3).map(|cpu| Load { cpu: CpuId(cpu), ..stream(0, [1000.0, 0.0]) }).collect();
        assert_eq!(predicted(&three), (30_000.0, Bound::Controller(0)));
        let one = [stream(1, [1000.0, 0.0])];
        assert_eq!(predicted(&one), (20_000.0, Bound::Link(0, 1)));
    }

    #[test]
    fn what_is_written_goes_back_the_other_way() {
        let write = |written| load(1, Pattern::Stream, [1000.0, 0.0], written);
        // The link's other direction is free; the controller carries both.
        assert_eq!(predicted(&[write(true)]).0, 20_000.0);
        let local = load(0, Pattern::Stream, [1000.0, 0.0], true);
        assert_eq!(predicted(&[local]), (20_000.0, Bound::Controller(0)));
    }

    #[test]
    fn a_cache_serves_its_share_of_random_accesses() {
        let mut dependent = load(0, Pattern::Dependent, [1000.0, 0.0], false);
        dependent.accesses[0].footprint_bytes = 2 << 20;
        // Half at 100 ns, half at 40 cycles of half a nanosecond.
        assert_eq!(without_queues(&[dependent]).0, 60_000.0);
    }

    #[test]
    fn computing_hides_a_stream_but_not_a_chain() {
        let with = |pattern| {
            let mut load = load(0, pattern, [10.0, 0.0], false);
            load.compute_ns = 5000.0;
            without_queues(&[load]).0
        };
        assert_eq!((with(Pattern::Stream), with(Pattern::Dependent)), (5000.0, 6000.0));
    }

    #[test]
    fn what_waits_between_streams_makes_them_longer() {
        let mut mixed = load(0, Pattern::Stream, [1000.0, 0.0], false);
        let write = load(0, Pattern::Independent, [100.0, 0.0], false);
        mixed.accesses.extend(write.accesses);
        // 10 us of streams at 10 ns a line, then 20 ns for each of 100.
        assert_eq!(without_queues(std::slice::from_ref(&mixed)).0, 2500.0 + 2000.0);
        let (ns, bound) = predicted(&[mixed]);
        assert_eq!(bound, Bound::Thread(0));
        assert!((12_000.0..13_000.0).contains(&ns), "{ns}");
    }

    #[test]
    fn queues_leave_as_much_time_as_they_take() {
        let scatter = |cpu| {
            let load = load(0, Pattern::Independent, [1000.0, 0.0], true);
            Load { cpu: CpuId(cpu), ..load }
        };
        // 20 ns of the controller for each access, and 20 ns of latency with five in flight.
        let loads = [scatter(0)];
        let (ns, bound) = predicted(&loads);
        assert_eq!(bound, Bound::Thread(0));
        let utilisation = 20_000.0 / ns;
        let queue = 10.0 * utilisation / (2.0 * (1.0 - utilisation));
        let again = 1000.0 * (100.0 + queue) / 5.0;
        assert!((ns - again).abs() < 2.0, "{ns} {again}");
        // Many threads have the controller's time and no more.
        let many: Vec<Load> = (0..20).map(scatter).collect();
        assert_eq!(predicted(&many), (400_000.0, Bound::Controller(0)));
    }

    #[test]
    fn a_neighbour_takes_what_it_asks_for_or_its_share() {
        let beside = |loads: &[Load], share, threads| {
            let neighbour = Neighbour { node: 0, share, threads };
            let prediction = predict_beside(&model(), loads, neighbour).unwrap();
            ((prediction.seconds * 1e9).round(), prediction.bound)
        };
        // Half of the controller, through the link.
        let remote = [load(1, Pattern::Stream, [1000.0, 0.0], false)];
        assert_eq!(beside(&remote, 0.5, 1), (20_000.0, Bound::Link(0, 1)));
        // Three of four threads are the neighbour's: a quarter of the controller is left.
        assert_eq!(beside(&remote, 0.9, 3), (40_000.0, Bound::Controller(0)));
        // It wants less.
        assert_eq!(beside(&remote, 0.6, 3), (25_000.0, Bound::Controller(0)));
        let elsewhere = [load(1, Pattern::Stream, [0.0, 1000.0], false)];
        assert_eq!(beside(&elsewhere, 0.75, 1).1, Bound::Controller(1));
    }

    #[test]
    fn threads_on_one_cpu_take_turns() {
        let chain = load(0, Pattern::Dependent, [10.0, 0.0], false);
        assert_eq!(without_queues(&[chain.clone(), chain.clone()]).0, 2000.0);
        let elsewhere = Load { cpu: CpuId(7), ..chain.clone() };
        assert_eq!(without_queues(&[chain, elsewhere]).0, 1000.0);
    }

    #[test]
    fn nothing_is_said_of_nodes_that_are_not_there() {
        assert_eq!(predict(&model(), &[]).map(|p| p.seconds > 0.0), Some(false));
        assert_eq!(predict(&model(), &[load(2, Pattern::Stream, [1.0, 0.0], false)]), None);
        let mut short = load(0, Pattern::Stream, [1.0, 0.0], false);
        short.accesses[0].lines.pop();
        assert_eq!(predict(&model(), &[short]), None);
    }
}
