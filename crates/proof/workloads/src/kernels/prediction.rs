//! Predicts the time of a kernel: `t = max(controller, link, (latency + queues) / MLP)`.
//!
//! Every line that threads fetch from memory, and every modified line that returns, takes time at
//! the controller of its home node and at each link on the way. All threads share these. In
//! addition, a thread waits for the part of the latency that it cannot overlap, and in the queues
//! at controllers and links, which are longer the shorter t is. From this follows what delays each
//! thread and when the last one ends (`flow`). This module measures nothing and makes no system
//! calls: its input is the machine and the traffic, and its output is in seconds.
//!
//! Source of the figures: the machine description, as the lab's model reads it
//! (`numapilot_lab_model::Model`).

use std::collections::BTreeMap;

use numapilot_lab_model::Model;
use numapilot_topology::CpuId;

use super::controllers_and_links::ControllersAndLinks;
use super::flow::{self, Flow};
use super::load::Load;
use super::traffic::flows;
use crate::random::mix;

pub use super::controllers_and_links::Bound;

/// A predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The time.
    pub seconds: f64,
    /// What limits it.
    pub bound: Bound,
}

/// Threads that stream through the memory of one node for as long as the other threads run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// The node.
    pub node: usize,
    /// The share of its controller that they request.
    pub share: f64,
    /// Their number.
    pub threads: usize,
}

impl Neighbour {
    /// The flows of the neighbour beside these threads. Its share of the controller depends on how
    /// many of them are there at the same time.
    fn flows(&self, resources: &ControllersAndLinks, threads: &[Vec<Load>]) -> Vec<Flow> {
        let shares: Vec<f64> = threads.iter().map(|loads| share_of(loads, self.node)).collect();
        let passing: f64 = shares.iter().sum();
        let there = self.streams_there(&shares);
        let scale = if passing > 0.0 { there / passing } else { 1.0 };
        let share = self.share / self.threads as f64;
        let lines = scale * share * 1e9 / resources.line_ns(self.node);
        vec![Flow { uses: vec![(self.node, share)], lines, alone_seconds: 1.0 }; self.threads]
    }

    /// The average number of threads that are on the neighbour's node at the same time, given the
    /// share of lines that each has there. A stream visits one controller after the other, a page
    /// at a time. At a controller with other streams it takes as many times longer as there are
    /// streams, and meanwhile more of them arrive.
    ///
    /// Source: Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks",
    /// Journal of the ACM 27 (1980).
    fn streams_there(&self, shares: &[f64]) -> f64 {
        let mut there: f64 = shares.iter().sum();
        for _ in 0..ROUNDS {
            let times_longer = there + self.threads as f64;
            let stays = |share: &f64| share * times_longer / (1.0 + share * (times_longer - 1.0));
            there = shares.iter().map(stays).sum();
        }
        there
    }
}

/// The number of streams has converged after this many rounds.
const ROUNDS: usize = 100;

/// The share of a thread's lines that are on a node.
fn share_of(loads: &[Load], node: usize) -> f64 {
    let accesses = || loads.iter().flat_map(|load| &load.accesses);
    let all: f64 = accesses().flat_map(|access| &access.lines).sum();
    let its: f64 = accesses().map(|access| access.lines[node]).sum();
    if all > 0.0 { its / all } else { 0.0 }
}

/// Relative precision of the computed time.
const PRECISION: f64 = 1e-5;

/// The time of threads that begin together, each with its loads one after the other, until the last
/// one ends. Returns `None` when there are no threads, or when they name a node that the machine
/// does not have.
///
/// Threads wait longer in queues when all their lines have less time, and the work lasts as long as
/// the threads. The result is the time at which both agree.
#[must_use]
pub fn predict(
    model: &Model,
    threads: &[Vec<Load>],
    beside: Option<Neighbour>,
) -> Option<Prediction> {
    let nodes = model.nodes();
    let loads = || threads.iter().flatten();
    let fits = |load: &Load| {
        load.node < nodes && load.accesses.iter().all(|access| access.lines.len() == nodes)
    };
    if loads().next().is_none() || !loads().all(fits) {
        return None;
    }
    let resources = ControllersAndLinks::of_machine(model);
    let mut busy_seconds = vec![0.0; resources.count()];
    loads().for_each(|load| resources.add(&mut busy_seconds, model, load, |_| true));
    let neighbours = beside.map_or(Vec::new(), |beside| beside.flows(&resources, threads));
    let end_within = |seconds: f64| {
        let mut utilisation: Vec<f64> = busy_seconds.iter().map(|busy| busy / seconds).collect();
        if let Some(beside) = beside {
            utilisation[beside.node] += beside.share;
        }
        let waits_ns = resources.waits_ns(&utilisation);
        // Threads on one CPU take turns.
        let mut cpus: BTreeMap<CpuId, (usize, Vec<Flow>)> = BTreeMap::new();
        for (thread, its) in threads.iter().enumerate() {
            for (turn, load) in its.iter().enumerate() {
                let (_, theirs) = cpus.entry(load.cpu).or_insert((load.node, Vec::new()));
                let size = if turn + 1 < its.len() { size(thread, turn) } else { 1.0 };
                let flows = flows(model, &resources, load, &waits_ns[load.node]);
                theirs.extend(flows.map(|flow| flow.times(size)));
            }
        }
        let (nodes, cpus): (Vec<usize>, Vec<Vec<Flow>>) = cpus.into_values().unzip();
        let end = flow::end(&cpus, &neighbours, resources.count())?;
        let bound = match end.held_by {
            Some(resource) => resources.bound(resource),
            None => Bound::Thread(nodes[end.thread]),
        };
        Some(Prediction { seconds: end.seconds, bound })
    };
    let mut least = end_within(f64::INFINITY)?.seconds;
    let mut slow = end_within(least)?;
    while slow.seconds - least > PRECISION * slow.seconds {
        let middle = least.midpoint(slow.seconds);
        let at = end_within(middle)?;
        if at.seconds > middle {
            least = middle;
        } else {
            slow = Prediction { seconds: middle, ..at };
        }
    }
    Some(slow)
}

/// The relative difference between loads of the same size.
const UNEVEN: f64 = 0.05;

/// Threads with the same work never stay in step for long, because no two are equally fast. Each
/// load is therefore a little larger or smaller, always in the same way.
fn size(thread: usize, turn: usize) -> f64 {
    let drawn = mix(mix(thread as u64) ^ turn as u64) as f64 / u64::MAX as f64;
    1.0 + UNEVEN * (2.0 * drawn - 1.0)
}

#[cfg(test)]
mod tests {
    use numapilot_lab_model::{Cache, Link, MemoryRange};

    use super::super::load::{Access, Pattern, Usage, first_share};
    use super::*;

    /// Two nodes with one CPU each: 100 ns local, 200 ns remote, 6.4 GB/s, and a link of 3.2 GB/s.
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
        let usage = if written { Usage::Write } else { Usage::Read };
        let access = Access { pattern, lines: lines.to_vec(), usage, footprint_bytes, huge: false };
        Load { node, cpu: CpuId(node as u32), compute_ns: 0.0, accesses: vec![access] }
    }

    fn beside(model: &Model, loads: &[Load], neighbour: Option<Neighbour>) -> (f64, Bound) {
        let prediction =
            predict(model, &loads.chunks(1).map(<[Load]>::to_vec).collect::<Vec<_>>(), neighbour)
                .unwrap();
        ((prediction.seconds * 1e9).round(), prediction.bound)
    }

    fn predicted_on(model: &Model, loads: &[Load]) -> (f64, Bound) {
        beside(model, loads, None)
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
        // The link's other direction is free; the controller serves both.
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
    fn caches_have_shared_lines_from_each_other() {
        let ms = |usage| {
            let thread = |cpu: u32| {
                let mut load = load(cpu as usize % 2, Pattern::Independent, [1e6, 0.0], false);
                load.cpu = CpuId(cpu);
                load.accesses[0].usage = usage;
                load.accesses[0].footprint_bytes = 4 << 20;
                load
            };
            let (ns, bound) = predicted(&(0..8).map(thread).collect::<Vec<Load>>());
            assert_eq!(bound, Bound::Controller(0));
            (ns / 1e6).round()
        };
        // A quarter is in each cache. The controller needs 10 ns for each of eight million lines
        // that come from memory or return to it.
        assert_eq!(ms(Usage::Write), 80.0 * (0.75 + 0.75));
        assert_eq!(ms(Usage::SharedStore(0.0)), 80.0 * (0.5 + 0.5));
        assert_eq!(ms(Usage::SharedUpdate(0.0)), 80.0 * (0.5 + 0.75));
        // Lines in no cache come from memory.
        assert_eq!(ms(Usage::SharedStore(1.0)), 80.0 * (1.0 + 1.0));
        let first = first_share(4 << 20, 0.0, 65536.0);
        assert!((first - (1.0 - (-1.0f64).exp())).abs() < 1e-9, "{first}");
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
        // 10 us of streams at 10 ns a line, then 20 ns for each of 100 accesses.
        assert_eq!(without_queues(std::slice::from_ref(&mixed)).0, 2500.0 + 2000.0);
        let (ns, bound) = predicted(&[mixed]);
        assert_eq!(bound, Bound::Controller(0));
        assert!((12_000.0..13_000.0).contains(&ns), "{ns}");
    }

    #[test]
    fn queues_leave_as_much_time_as_they_take() {
        let scatter = |cpu| {
            let load = load(0, Pattern::Independent, [1000.0, 0.0], true);
            Load { cpu: CpuId(cpu), ..load }
        };
        // 20 ns of the controller for each access, and 20 ns of latency with five accesses in
        // flight.
        let loads = [scatter(0)];
        let (ns, bound) = predicted(&loads);
        assert_eq!(bound, Bound::Thread(0));
        let utilisation = 20_000.0 / ns;
        let queue = 10.0 * utilisation / (2.0 * (1.0 - utilisation));
        let again = 1000.0 * (100.0 + queue) / 5.0;
        assert!((ns - again).abs() < 2.0, "{ns} {again}");
        // Many threads get the controller's full time, but no more.
        let many: Vec<Load> = (0..20).map(scatter).collect();
        assert_eq!(predicted(&many), (400_000.0, Bound::Controller(0)));
    }

    #[test]
    fn a_neighbour_takes_what_it_asks_for_or_its_share() {
        let beside = |loads: &[Load], share, threads| {
            beside(&model(), loads, Some(Neighbour { node: 0, share, threads }))
        };
        // More than half of the controller is left for a link that carries half as much.
        let remote = [load(1, Pattern::Stream, [1000.0, 0.0], false)];
        assert_eq!(beside(&remote, 0.4, 1), (20_000.0, Bound::Link(0, 1)));
        // Three of four threads are the neighbour's, so a quarter of the controller is left.
        assert_eq!(beside(&remote, 0.9, 3), (40_000.0, Bound::Controller(0)));
        // The neighbour requests less.
        assert_eq!(beside(&remote, 0.6, 3), (25_000.0, Bound::Controller(0)));
        let elsewhere = [load(1, Pattern::Stream, [0.0, 1000.0], false)];
        assert_eq!(beside(&elsewhere, 0.75, 1).1, Bound::Controller(1));
    }

    #[test]
    fn streams_crowd_where_a_neighbour_is() {
        let neighbour = |threads| Neighbour { node: 0, share: 1.0, threads };
        let there = |threads, shares: &[f64]| neighbour(threads).streams_there(shares);
        // All lines of all threads are there, or none.
        assert_eq!(there(1, &[1.0; 3]), 3.0);
        assert_eq!(there(1, &[0.0; 3]), 0.0);
        // Seven threads visit eight nodes: n = 7 (n + 1) / (n + 8).
        let seven = there(1, &[0.125; 7]);
        assert!((seven * seven + seven - 7.0).abs() < 1e-6, "{seven}");
        assert!(there(2, &[0.125; 7]) > seven);
    }

    #[test]
    fn threads_on_one_cpu_take_turns() {
        let chain = load(0, Pattern::Dependent, [10.0, 0.0], false);
        assert_eq!(without_queues(&[chain.clone(), chain.clone()]).0, 2000.0);
        let elsewhere = Load { cpu: CpuId(7), ..chain.clone() };
        assert_eq!(without_queues(&[chain, elsewhere]).0, 1000.0);
    }

    #[test]
    fn threads_that_go_from_node_to_node_drift_apart() {
        let at = |home: usize| std::array::from_fn(|node| if node == home { 100.0 } else { 0.0 });
        // All four begin on their own node and visit all nodes four times. In step, all would be at
        // home at the same time, and then all at the single link.
        let thread = |cpu: u32| {
            let node = cpu as usize % 2;
            let turn = |turn: usize| Load {
                cpu: CpuId(cpu),
                ..load(node, Pattern::Stream, at((node + turn) % 2), false)
            };
            (0..8).map(turn).collect::<Vec<Load>>()
        };
        let mut model = model();
        model.links[0].gb_per_s = 6.4;
        let seconds = |threads: &[Vec<Load>]| predict(&model, threads, None).unwrap().seconds;
        let ns = 1e9 * seconds(&(0..4).map(thread).collect::<Vec<_>>());
        // A controller has 1600 lines to serve, 10 ns each.
        assert!((16_000.0..18_000.0).contains(&ns), "{ns}");
    }

    #[test]
    fn nothing_is_reported_of_nodes_that_are_not_there() {
        assert_eq!(predict(&model(), &[], None), None);
        let nowhere = vec![load(2, Pattern::Stream, [1.0, 0.0], false)];
        assert_eq!(predict(&model(), &[nowhere], None), None);
        let mut short = load(0, Pattern::Stream, [1.0, 0.0], false);
        short.accesses[0].lines.pop();
        assert_eq!(predict(&model(), &[vec![short]], None), None);
    }
}
