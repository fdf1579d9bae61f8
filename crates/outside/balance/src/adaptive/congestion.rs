//! Decides whether a memory controller is the bottleneck, and which nodes should take its load.
//!
//! Sources: Carrefour's threshold on the imbalance if samples carry no latency. If they do, the
//! loaded latencies decide: while a node's own memory answers it more slowly than another node's,
//! its controller is congested. Weights are in proportion to bandwidth: Gureya et al.,
//! "Bandwidth-aware page placement in NUMA" (BWAP), IPDPS 2020.

use numapilot_topology::NodeSet;

use super::access::One;
use crate::nodes::Nodes;
use crate::traffic::Traffic;

/// Imbalance above which controllers count as congested.
const MOST_IMBALANCE: f64 = 0.35;

/// Spreading goes on while a controller has this much more than its share. All threads wait for the
/// fullest one. Chance makes one look fuller than it is, but then no page is left that could leave
/// it.
const CALM_EXCESS: f64 = 0.02;

/// Standard deviations of a load that count as chance.
const CHANCE: f64 = 2.0;

/// Samples needed for a mean latency.
const LEAST_SAMPLES: u32 = 30;

/// The controllers in one interval.
#[derive(Clone, Debug)]
pub struct Controllers {
    /// Whether some controllers should lose load.
    pub congested: bool,
    /// Whether spreading has begun and the loads are not even yet.
    pub uneven: bool,
    /// Share of all load that a node's memory should have; 0 for nodes that may not be used.
    pub target: Vec<f64>,
    /// Accesses to each node's memory, as expected after the moves decided so far.
    pub loads: Vec<f64>,
    /// Accesses to shared pages that will leave each node.
    leaving: Vec<f64>,
    total: f64,
}

impl Controllers {
    /// The state after the accesses of an interval. `spreading` tells whether the last interval
    /// spread pages.
    pub fn of(
        accesses: &[One],
        usable: &NodeSet,
        nodes: &Nodes,
        traffic: &Traffic,
        spreading: bool,
    ) -> Self {
        let weight = |at: usize| {
            let usable = usable.contains(nodes.ids()[at]);
            if usable { nodes.bandwidth(at) } else { 0.0 }
        };
        let weights: Vec<f64> = (0..nodes.len()).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let imbalanced = !spreading && traffic.imbalance().is_some_and(|i| i > MOST_IMBALANCE);
        let slower = slower_than_remote(accesses, nodes.len());
        let mut controllers = Self {
            congested: slower.unwrap_or(imbalanced),
            uneven: false,
            target: weights.iter().map(|w| if sum > 0.0 { w / sum } else { 0.0 }).collect(),
            loads: traffic.loads(),
            leaving: vec![0.0; nodes.len()],
            total: traffic.total(),
        };
        controllers.uneven = spreading && controllers.fullest_is_overloaded();
        controllers.congested |= controllers.uneven;
        controllers
    }

    /// Whether the fullest controller has noticeably more than its share.
    fn fullest_is_overloaded(&self) -> bool {
        self.fullest()
            .is_some_and(|at| self.excess(at) > CALM_EXCESS * self.target[at] * self.total)
    }

    /// The factor by which congestion lengthens accesses to a node's memory: 1 at its share, 2 when
    /// it has all the load, as Carrefour's table shows for Streamcluster.
    pub fn stretch(&self, at: usize) -> f64 {
        let target = self.target[at];
        if !self.congested || self.total <= 0.0 || target >= 1.0 {
            return 1.0;
        }
        1.0 + ((self.loads[at] / self.total - target) / (1.0 - target)).max(0.0)
    }

    /// How much one access fewer to a node's memory shortens all others to it together, in
    /// multiples of one access: all of them wait in the same queue.
    pub fn relief(&self, at: usize) -> f64 {
        let target = self.target[at];
        if !self.congested || self.excess(at) <= 0.0 || target >= 1.0 {
            return 0.0;
        }
        self.loads[at] / self.total / (1.0 - target)
    }

    /// Whether a node may take more. Pages come in turn, and chance makes some look hot and their
    /// node full before the others.
    pub fn has_room(&self, at: usize) -> bool {
        self.target[at] > 0.0 && self.excess(at) < CHANCE * (self.target[at] * self.total).sqrt()
    }

    /// Whether a node has so much load that it has to give away pages that had better stay. As long
    /// as enough load is leaving anyway, more such pages exist that this interval did not show.
    pub fn is_overfull(&self, at: usize) -> bool {
        !self.has_room(at) && self.excess(at) > self.leaving[at]
    }

    /// The node whose load exceeds its share the most.
    pub fn fullest(&self) -> Option<usize> {
        (0..self.loads.len()).max_by(|a, b| self.excess(*a).total_cmp(&self.excess(*b)))
    }

    /// Load beyond a node's share; negative if it has room.
    pub fn excess(&self, at: usize) -> f64 {
        self.loads[at] - self.target[at] * self.total
    }

    /// Accounts for a move of a shared unit with this weight.
    pub fn shift_shared(&mut self, home: usize, to: usize, weight: f32) {
        self.loads[home] -= f64::from(weight);
        self.loads[to] += f64::from(weight);
        self.leaving[home] += f64::from(weight);
    }

    /// Accounts for a move of the memory of these accesses.
    pub fn shift(&mut self, accesses: &[One], to: usize) {
        for one in accesses {
            self.loads[one.home()] -= 1.0;
            self.loads[to] += 1.0;
        }
    }
}

/// Whether a node's own memory is slower for it than another node's. `None` if samples do not tell.
fn slower_than_remote(accesses: &[One], nodes: usize) -> Option<bool> {
    let mut seen = vec![(0.0f64, 0u32); nodes * nodes];
    for one in accesses {
        if let Some(latency) = one.latency_ns() {
            let (sum, count) = &mut seen[one.from() * nodes + one.home()];
            *sum += f64::from(latency);
            *count += 1;
        }
    }
    let mean = |from: usize, home: usize| {
        let (sum, count) = seen[from * nodes + home];
        (count >= LEAST_SAMPLES).then(|| sum / f64::from(count))
    };
    let mut known = None;
    for from in 0..nodes {
        let Some(local) = mean(from, from) else { continue };
        for remote in (0..nodes).filter(|to| *to != from).filter_map(|to| mean(from, to)) {
            known = Some(known.unwrap_or(false) || local > remote);
        }
    }
    known
}
