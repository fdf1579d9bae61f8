//! Whether a memory controller is the bottleneck, and who should take its load.
//!
//! Sources: Carrefour's threshold on the imbalance, where samples carry no latency; where
//! they do, the loaded latencies themselves: while a node's own memory answers it slower
//! than another's, its controller is congested. Weights in proportion to bandwidth: Gureya
//! et al., "Bandwidth-aware page placement in NUMA" (BWAP), IPDPS 2020.

use numapilot_topology::NodeSet;

use super::access::One;
use crate::nodes::Nodes;
use crate::traffic::Traffic;

/// Imbalance beyond which controllers are taken for congested.
const MOST_IMBALANCE: f64 = 0.35;

/// Imbalance beyond chance at which one leaves off spreading. Half-way latencies are in order, and a
/// third of the gain is still to be had; of eight controllers one may still have 13 % more to do than it
/// should, and all wait for it.
const CALM_IMBALANCE: f64 = 0.05;

/// Standard deviations of a load that chance explains.
const CHANCE: f64 = 2.0;

/// Samples by which a mean latency is known.
const LEAST_SAMPLES: u32 = 30;

/// The controllers in one interval.
#[derive(Clone, Debug)]
pub struct Controllers {
    /// Whether load should be taken off some.
    pub congested: bool,
    /// Whether what has begun to be spread is not even yet.
    pub uneven: bool,
    /// Share of all load that a node's memory is meant for; 0 for those that may not be used.
    pub target: Vec<f64>,
    /// Accesses to each node's memory, as they would be after what has been decided.
    pub loads: Vec<f64>,
    /// Accesses to what several share that will leave each node.
    leaving: Vec<f64>,
    total: f64,
}

impl Controllers {
    /// By the accesses of an interval; `spreading` when the last one has begun to.
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
        let uneven =
            spreading && traffic.imbalance_beyond_chance().is_some_and(|i| i > CALM_IMBALANCE);
        let imbalanced = !spreading && traffic.imbalance().is_some_and(|i| i > MOST_IMBALANCE);
        let slower = slower_than_remote(accesses, nodes.len());
        Self {
            congested: slower.unwrap_or(imbalanced) || uneven,
            uneven,
            target: weights.iter().map(|w| if sum > 0.0 { w / sum } else { 0.0 }).collect(),
            loads: traffic.loads(),
            leaving: vec![0.0; nodes.len()],
            total: traffic.total(),
        }
    }

    /// By how much congestion stretches accesses to a node's memory: 1 at its share, 2 when
    /// it has all the load, as Carrefour's table shows of Streamcluster.
    pub fn stretch(&self, at: usize) -> f64 {
        let target = self.target[at];
        if !self.congested || self.total <= 0.0 || target >= 1.0 {
            return 1.0;
        }
        1.0 + ((self.loads[at] / self.total - target) / (1.0 - target)).max(0.0)
    }

    /// By how much an access less to a node's memory shortens the others to it, all together, in
    /// times of one: the queue is everybody's.
    pub fn relief(&self, at: usize) -> f64 {
        let target = self.target[at];
        if !self.congested || self.excess(at) <= 0.0 || target >= 1.0 {
            return 0.0;
        }
        self.loads[at] / self.total / (1.0 - target)
    }

    /// Whether a node may take more: of pages that come in turn chance makes some look hot, and
    /// their node full before the others.
    pub fn has_room(&self, at: usize) -> bool {
        self.target[at] > 0.0 && self.excess(at) < CHANCE * (self.target[at] * self.total).sqrt()
    }

    /// Whether a node has so much that it has to give away what had better stay. As long as much
    /// leaves it by itself there is more of that, which was not seen in this interval.
    pub fn is_overfull(&self, at: usize) -> bool {
        !self.has_room(at) && self.excess(at) > self.leaving[at]
    }

    /// The node with the most load beyond its share.
    pub fn fullest(&self) -> Option<usize> {
        (0..self.loads.len()).max_by(|a, b| self.excess(*a).total_cmp(&self.excess(*b)))
    }

    /// Load beyond a node's share; negative where there is room.
    pub fn excess(&self, at: usize) -> f64 {
        self.loads[at] - self.target[at] * self.total
    }

    /// Reckons from now on with a move of something shared that has so many accesses.
    pub fn shift_shared(&mut self, home: usize, to: usize, weight: f32) {
        self.loads[home] -= f64::from(weight);
        self.loads[to] += f64::from(weight);
        self.leaving[home] += f64::from(weight);
    }

    /// Reckons from now on with a move of what these accesses went to.
    pub fn shift(&mut self, accesses: &[One], to: usize) {
        for one in accesses {
            self.loads[one.home()] -= 1.0;
            self.loads[to] += 1.0;
        }
    }
}

/// Whether one node's own memory is slower for it than another's; `None` where samples do
/// not tell.
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
