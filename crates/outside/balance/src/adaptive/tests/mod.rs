//! Tests of decisions on small worlds whose pages move at once.

mod any_world;
mod side_by_side;

use std::collections::BTreeMap;

use numapilot_topology::{Machine, NodeId, NodeSet};

use super::*;
use crate::evidence::Access;

const SECOND_NS: u64 = 1_000_000_000;

/// Pages and their users, over several intervals.
struct World {
    nodes: Nodes,
    usable: NodeSet,
    homes: BTreeMap<Page, NodeId>,
    state: Adaptive,
    now_ns: u64,
    /// All orders with their time.
    given: Vec<(u64, Order)>,
    per_sample: Option<f64>,
    kernel_collocates: bool,
    /// Whether a node's accesses are stores.
    writes: fn(u32) -> bool,
    can_split: bool,
}

impl World {
    fn new(nodes: u32) -> Self {
        let mut machine = Machine::uniform(nodes, 1);
        for (i, row) in machine.distances.iter_mut().enumerate() {
            for (j, distance) in row.iter_mut().enumerate() {
                *distance = if i == j { 10 } else { 20 };
            }
        }
        Self {
            nodes: Nodes::of(&machine),
            usable: machine.node_ids(),
            homes: BTreeMap::new(),
            state: Adaptive::new(nodes as usize, Settings::default()),
            now_ns: 0,
            given: Vec::new(),
            per_sample: Some(1000.0),
            kernel_collocates: false,
            writes: |_| true,
            can_split: true,
        }
    }

    /// Adds `count` pages with the same home, beginning with `first`.
    fn pages(mut self, first: u64, count: u64, home: u32) -> Self {
        self.homes.extend((first..first + count).map(|page| (Page(page), NodeId(home))));
        self
    }

    fn home(&self, page: u64) -> u32 {
        self.homes[&Page(page)].0
    }

    /// The number of pages on each node.
    fn counts(&self) -> Vec<usize> {
        let on = |id: &NodeId| self.homes.values().filter(|home| *home == id).count();
        self.nodes.ids().iter().map(on).collect()
    }

    /// Runs an interval with these accesses, `(page, from)`.
    fn interval(&mut self, accesses: impl IntoIterator<Item = (u64, u32)>) -> Decision {
        self.interval_with(accesses, |_, _| None, false)
    }

    fn interval_with(
        &mut self,
        accesses: impl IntoIterator<Item = (u64, u32)>,
        latency: impl Fn(u32, u32) -> Option<u32>,
        huge: bool,
    ) -> Decision {
        self.now_ns += SECOND_NS;
        let accesses = accesses.into_iter().map(|(page, from)| {
            let (page, from) = (Page(page), NodeId(from));
            let home = self.homes[&page];
            let latency_ns = latency(from.0, home.0);
            Access { page, from, home, write: (self.writes)(from.0), huge, latency_ns }
        });
        let evidence = Evidence {
            duration_ns: SECOND_NS,
            accesses: accesses.collect(),
            accesses_per_sample: self.per_sample,
            kernel_collocates: self.kernel_collocates,
            can_split: self.can_split,
            usable: self.usable.clone(),
            ..Evidence::default()
        };
        let decision = self.state.decide(&self.nodes, &evidence, self.now_ns);
        let mut moved = Vec::new();
        for order in &decision.orders {
            self.given.push((self.now_ns, *order));
            for page in order.each() {
                if let Some(home) = self.homes.get_mut(&page)
                    && *home != order.to
                {
                    moved.push(Moved { page, from: *home, to: order.to });
                    *home = order.to;
                }
            }
        }
        self.state.done(&moved, 1000 * moved.len() as u64, self.now_ns);
        decision
    }
}

/// Accesses to every page by one node, `times` each.
fn by(pages: std::ops::Range<u64>, from: u32, times: usize) -> Vec<(u64, u32)> {
    pages.flat_map(|page| vec![(page, from); times]).collect()
}

#[test]
fn many_accesses_are_decided_on_like_few() {
    // Every other region is used from the other node; two threads share the work.
    let user = |page: u64| (page / 512 % 2) as u32;
    let all = 0..1u64 << 14;
    let mut world = World::new(2).pages(0, 1 << 14, 0);
    for _ in 0..2 {
        let accesses = (0..8).flat_map(|_| all.clone().map(|page| (page, user(page))));
        assert!(accesses.clone().count() >= MANY);
        world.interval(accesses);
    }
    assert!(all.clone().all(|page| world.home(page) == user(page)), "{:?}", world.counts());
}

#[test]
fn a_page_goes_to_its_only_user() {
    let mut world = World::new(2).pages(0, 50, 0);
    assert_eq!(world.interval(by(0..50, 1, 6)).orders, [], "it has not lasted yet");
    let decision = world.interval(by(0..50, 1, 6));
    assert_eq!(decision.state, State::Moving);
    assert!(decision.gain.unwrap() > 0.4, "{decision:?}");
    assert_eq!(world.counts(), [0, 50]);
    for _ in 0..PATIENCE {
        assert_eq!(world.interval(by(0..50, 1, 6)).orders, []);
    }
    let rest = world.interval(by(0..50, 1, 6));
    assert_eq!((rest.state, rest.gain), (State::GivenUp, Some(0.0)));
}

#[test]
fn a_page_with_little_evidence_goes_with_its_region() {
    let mut world = World::new(2).pages(0, 512, 0);
    // Each page gets one sample in an interval, which is not enough evidence for a single page.
    world.interval(by(0..512, 1, 1));
    world.interval(by(0..512, 1, 1));
    assert_eq!(world.counts(), [0, 512]);
}

#[test]
fn a_page_goes_to_who_waits_for_it() {
    // A producer on one node, a consumer on the other.
    let both = || (0..2).flat_map(|node| by(0..512, node, 2)).collect::<Vec<_>>();
    let mut world = World::new(2).pages(0, 512, 0);
    for _ in 0..4 {
        world.interval(both());
    }
    assert!(world.counts()[1] < 300, "both store: {:?}", world.counts());
    let mut world = World::new(2).pages(0, 512, 0);
    world.writes = |from| from == 0;
    for _ in 0..4 {
        world.interval(both());
    }
    assert_eq!(world.counts(), [0, 512]);
    assert!(world.given.iter().all(|(_, order)| order.why == Why::Collocate));
}

#[test]
fn what_several_share_stays_while_nothing_is_congested() {
    // Half of the pages are on each node, and both nodes use all.
    let mut world = World::new(2).pages(0, 50, 0).pages(50, 50, 1);
    for _ in 0..4 {
        let both = by(0..100, 0, 3).into_iter().chain(by(0..100, 1, 3));
        assert_eq!(world.interval(both).orders, []);
    }
}

#[test]
fn what_several_share_is_spread_when_one_controller_has_it_all() {
    let mut world = World::new(4).pages(0, 400, 0);
    let all = |_| (0..4).flat_map(|node| by(0..400, node, 2)).collect::<Vec<_>>();
    for at in 0..4 {
        world.interval(all(at));
    }
    let counts = world.counts();
    assert!(counts.iter().all(|pages| (90..=110).contains(pages)), "{counts:?}");
    assert!(world.given.iter().all(|(_, order)| order.why == Why::Interleave));
}

/// A program that walks through its memory. Every interval shows part of it.
#[test]
fn all_parts_are_spread_alike() {
    let mut world = World::new(4).pages(0, 4096, 0);
    let walk = |first: u64, times| {
        let part = |node| by(first..first + 1024, node, times);
        (0..4).flat_map(part).collect::<Vec<_>>()
    };
    world.interval((0..4).flat_map(|part| walk(part * 1024, 1)).collect::<Vec<_>>());
    for first in [2048, 0, 1024, 3072, 2048] {
        world.interval(walk(first, 2));
    }
    for region in 0..8u64 {
        let on = |node| (0..512).filter(|page| world.home(region * 512 + page) == node).count();
        let counts: Vec<usize> = (0..4).map(on).collect();
        assert!(counts.iter().all(|pages| (100..=156).contains(pages)), "{region}: {counts:?}");
    }
}

#[test]
fn what_is_spread_lies_as_if_interleaved() {
    let mut world = World::new(4).pages(0, 512, 0);
    for at in 0..8 {
        // A different fifth of the pages is not seen each time.
        let seen = (0..512).filter(|page| page % 5 != at % 5);
        let accesses = seen.flat_map(|page| (0..4).map(move |node| (page, node)));
        world.interval(accesses.collect::<Vec<_>>());
    }
    let expected: Vec<u32> = (0..4).cycle().take(512).collect();
    assert_eq!((0..512).map(|page| world.home(page)).collect::<Vec<_>>(), expected);
}

#[test]
fn what_a_known_region_shares_is_spread_at_first_sight() {
    let mut world = World::new(4).pages(0, 2048, 0);
    // The regions are known by pages that are not seen again.
    world.interval((0..2048).step_by(16).map(|page| (page, 0)).collect::<Vec<_>>());
    let shared = |page: &u64| !page.is_multiple_of(16);
    let two = |page: u64| [(page, page as u32 % 4), (page, (page as u32 + 1) % 4)];
    world.interval((0..2048).filter(shared).flat_map(two).collect::<Vec<_>>());
    let counts = world.counts();
    assert!(counts[1..].iter().all(|pages| (450..=500).contains(pages)), "{counts:?}");
}

/// One access to a page does not show whether others use it too.
#[test]
fn what_may_be_somebodys_is_not_spread_at_first_sight() {
    let mut world = World::new(4).pages(0, 2048, 0);
    for seen in 0..4 {
        let pages = (0..2048).skip(seen).step_by(4);
        // Each page belongs to the next node in turn and is seen once.
        let decision = world.interval(pages.map(|page| (page, page as u32 / 4 % 4)));
        assert_eq!(decision.orders, []);
    }
}

#[test]
fn where_pages_are_spread_those_that_come_after_them_are_spread_at_once() {
    let mut world = World::new(4).pages(0, 400, 0).pages(1024, 100, 0);
    let mut first_touch = Vec::new();
    for _ in 0..3 {
        let shared = (0..4).flat_map(|node| by(0..400, node, 2));
        let decision = world.interval(shared.chain(by(1024..1124, 1, 6)).collect::<Vec<_>>());
        first_touch.extend(decision.first_touch);
    }
    assert_eq!(first_touch, [FirstTouch { region: Region(0), spread: true }]);
    assert_eq!(world.home(1100), 1, "with one user it goes there");
}

#[test]
fn memory_that_is_touched_anew_before_its_moves_help_is_spread() {
    let mut world = World::new(4).pages(0, 400, 0);
    let mut first_touch = Vec::new();
    for _ in 0..4 {
        // All pages are freed after each interval and touched by node 0 again.
        world.homes.values_mut().for_each(|home| *home = NodeId(0));
        first_touch.extend(world.interval(by(0..400, 1, 6)).first_touch);
    }
    assert_eq!(first_touch, [FirstTouch { region: Region(0), spread: true }]);
}

/// Eight phases of an interval. In each of them every node walks through 64 pages of another node.
fn in_turns(nodes: u64) -> impl Iterator<Item = (u64, u32)> {
    (0..8).flat_map(move |phase| {
        (0..64 * nodes)
            .map(move |n| ((n % nodes + phase) % nodes * 512 + n / nodes, (n % nodes) as u32))
    })
}

#[test]
fn what_nodes_use_one_after_the_other_is_spread_where_they_wait() {
    for (remote_ns, spread) in [(800, true), (200, false)] {
        let mut world =
            (0..4).fold(World::new(4), |world, node| world.pages(u64::from(node) * 512, 64, node));
        for _ in 0..6 {
            // A node does not wait for memory that the others do not use.
            let remote_ns = if world.home(1) == 0 { remote_ns } else { 250 };
            let latency = |from, home| Some(if from == home { 100 } else { remote_ns });
            world.interval_with(in_turns(4), latency, false);
        }
        for node in 0..4 {
            let here = (0..64).filter(|page| world.home(node * 512 + page) == node as u32).count();
            assert_eq!(here, if spread { 16 } else { 64 });
        }
    }
}

/// The same imbalance, but the samples say that the controller is not congested.
#[test]
fn latencies_are_believed_before_imbalance() {
    let idle = |from: u32, home: u32| Some(if from == home { 100u32 } else { 200 });
    let loaded = |_: u32, home: u32| Some(if home == 0 { 400u32 } else { 200 });
    for (spreads, latency) in [(false, idle as fn(u32, u32) -> Option<u32>), (true, loaded)] {
        let mut world = World::new(2).pages(0, 300, 0).pages(300, 40, 1);
        for _ in 0..3 {
            let both = by(0..340, 0, 2).into_iter().chain(by(0..340, 1, 2));
            world.interval_with(both, latency, false);
        }
        assert_eq!(world.counts()[0] < 250, spreads, "{:?}", world.counts());
    }
}

#[test]
fn bandwidth_decides_how_much_a_node_takes() {
    let mut machine = Machine::uniform(2, 1);
    machine.figures.bandwidth_gb_per_s = vec![vec![Some(30.0), Some(10.0)], vec![Some(10.0); 2]];
    let mut world = World::new(2).pages(0, 400, 0);
    world.nodes = Nodes::of(&machine);
    for _ in 0..4 {
        world.interval((0..2).flat_map(|node| by(0..400, node, 2)).collect::<Vec<_>>());
    }
    let counts = world.counts();
    assert!((95..=105).contains(&counts[1]), "{counts:?}");
}

#[test]
fn pages_that_were_not_seen_move_with_those_that_were() {
    // 300 of 512 pages are seen once each, so the others are as likely to be in use.
    let mut world = World::new(2).pages(0, 512, 0);
    for _ in 0..2 {
        world.interval(by(0..300, 1, 1));
    }
    assert_eq!(world.home(511), 1);
    // The same few pages are seen again and again: nothing suggests that the others are used.
    let mut world = World::new(2).pages(0, 512, 0);
    for _ in 0..2 {
        world.interval(by(0..10, 1, 30));
    }
    assert_eq!((world.home(9), world.home(511)), (1, 0));
}

#[test]
fn the_first_fault_of_a_page_is_not_evidence() {
    let mut world = World::new(2).pages(0, 512, 0);
    world.per_sample = None;
    for _ in 0..2 {
        // Node 0 has made the pages; node 1 uses them from then on.
        if world.now_ns == 0 {
            assert_eq!(world.interval(by(0..512, 0, 1)).state, State::Waiting);
        }
        world.interval(by(0..512, 1, 1));
    }
    assert_eq!(world.counts(), [0, 512]);
}

#[test]
fn moves_that_do_not_help_are_undone() {
    let mut world = World::new(2).pages(0, 100, 0);
    // Accesses are slow wherever the pages are.
    let slow = |_, _| Some(500);
    world.interval_with(by(0..100, 1, 6), slow, false);
    assert_eq!(world.interval_with(by(0..100, 1, 6), slow, false).state, State::Moving);
    assert_eq!(world.counts(), [0, 100]);
    assert_eq!(world.interval_with(by(0..100, 1, 6), slow, false).state, State::Idle);
    let decision = world.interval_with(by(0..100, 1, 6), slow, false);
    assert_eq!(decision.state, State::BackingOff);
    assert!(decision.orders.iter().all(|order| order.why == Why::Undo));
    assert_eq!(world.counts(), [100, 0]);
    for _ in 0..9 {
        let decision = world.interval_with(by(0..100, 1, 6), slow, false);
        assert_eq!((decision.state, decision.orders.len()), (State::BackingOff, 0));
    }
}

#[test]
fn a_move_must_be_worth_its_cost() {
    let mut world = World::new(2).pages(0, 50, 0);
    // The samples stand for few accesses: 300 remote ones save 30 us in a second.
    world.per_sample = Some(0.01);
    for _ in 0..5 {
        assert_eq!(world.interval(by(0..50, 1, 6)).orders, []);
    }
}

#[test]
fn too_little_evidence_decides_nothing() {
    let mut world = World::new(2).pages(0, 5, 0);
    for _ in 0..3 {
        assert_eq!(world.interval(by(0..3, 1, 6)).state, State::Waiting);
    }
}

/// Each fault moves a page to the node that faulted, so every single access looks local. Over
/// several intervals the page is shared all the same.
#[test]
fn sharing_is_seen_over_intervals() {
    let mut world = World::new(2).pages(0, 400, 0);
    world.kernel_collocates = true;
    world.per_sample = None;
    for at in 0..8u32 {
        // Each page is used by one node per interval, and equally often by both.
        let user = |page: u64| u32::from((page + u64::from(at)).is_multiple_of(2));
        for page in (0..400).filter(|page| user(*page) == 0) {
            world.homes.insert(Page(page), NodeId(0));
        }
        world.interval((0..400).map(|page| (page, user(page))).collect::<Vec<_>>());
    }
    assert!(world.given.len() > 100, "{}", world.given.len());
}

#[test]
fn what_the_kernel_moves_is_left_to_it() {
    let mut world = World::new(2).pages(0, 50, 0).pages(512, 400, 0);
    world.kernel_collocates = true;
    for _ in 0..4 {
        let shared = (0..2).flat_map(|node| by(512..912, node, 2));
        world.interval(by(0..50, 1, 6).into_iter().chain(shared).collect::<Vec<_>>());
    }
    assert!(world.counts()[1] > 150, "{:?}", world.counts());
    assert!(world.given.iter().all(|(_, order)| order.why == Why::Interleave));
}

#[test]
fn what_all_read_would_gain_by_copies() {
    let mut world = World::new(2).pages(0, 512, 0).pages(512, 512, 0).pages(2048, 512, 0);
    let all = |pages: std::ops::Range<u64>| (0..2).flat_map(move |node| by(pages.clone(), node, 1));
    let accesses = || all(0..1024).chain(by(2048..2560, 1, 1)).collect::<Vec<_>>();
    assert_eq!(world.interval(accesses()).copies, [], "all are written");
    world.writes = |_| false;
    let decision = world.interval(accesses());
    let found: Vec<_> = decision.copies.iter().map(|c| (c.start, c.pages)).collect();
    assert_eq!((found, decision.replicable), (vec![(Page(0), 1024)], 1024));
    assert!((0.1..0.9).contains(&decision.copies[0].gain), "{decision:?}");
}
