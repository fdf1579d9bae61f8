//! Carrefour as published: global gates over an interval of a second, then a rule for every
//! sampled page.
//!
//! Source: Dashti et al., "Traffic Management: A Holistic Approach to Memory Placement on
//! NUMA Systems", ASPLOS 2013, sections 3.2 and 3.3, with the constants of its published
//! source; Gaud et al., CACM 58:12 (2015), "Carrefour".
//!
//! A stock kernel has no page replication. Pages that the rules would replicate are counted, and
//! the next rule applies to them.

mod gates;
mod pages;

use numapilot_topology::NodeId;
use rand::SeedableRng;
use rand::rngs::StdRng;

pub use gates::Gates;
pub use pages::Spread;

use crate::decision::{Decision, Order, State};
use crate::evidence::Evidence;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use pages::{Rules, Seen};

/// Most pages of an interval; later ones are ignored.
const MOST_PAGES: usize = 30_000;

/// Least pages that would gain for replication to begin.
const FIRST_REPLICAS: usize = 500;

/// The state: a random stream, and whether replication has begun.
#[derive(Debug)]
pub struct Paper {
    spread: Spread,
    random: StdRng,
    replicated: bool,
}

impl Paper {
    /// Begins with the rule that chooses the node of interleaved pages, and the seed of its random
    /// stream.
    #[must_use]
    pub fn new(spread: Spread, seed: u64) -> Self {
        Self { spread, random: StdRng::seed_from_u64(seed), replicated: false }
    }

    /// Decides by the evidence of an interval.
    pub fn decide(&mut self, nodes: &Nodes, evidence: &Evidence) -> Decision {
        let (metrics, traffic) = Metrics::of(evidence, nodes);
        let mut gates = Gates::of(&metrics, evidence.memory_used);
        gates.collocate &= !evidence.kernel_collocates;
        let mut decision = Decision {
            metrics,
            state: if metrics.samples == 0 { State::Waiting } else { State::Idle },
            interleaves: gates.interleave,
            collocates: gates.collocate,
            ..Decision::default()
        };
        if !gates.any() {
            return decision;
        }
        let seen = Seen::of(&evidence.accesses, MOST_PAGES);
        let replicable = seen.iter().filter(|(_, page)| page.replicable()).count();
        if gates.replicate && (self.replicated || replicable >= FIRST_REPLICAS) {
            self.replicated = true;
            decision.replicable = replicable;
        }
        let loads = traffic.loads();
        let loads: Vec<(NodeId, f64)> = nodes.ids().iter().copied().zip(loads).collect();
        let rules = Rules { gates, spread: self.spread, loads: &loads };
        for (page, seen) in &seen {
            let Some((to, why)) = rules.destination(seen, &mut self.random) else { continue };
            if to != seen.home && evidence.usable.contains(to) {
                decision.orders.push(Order { start: *page, pages: 1, to, why });
            }
        }
        if !decision.orders.is_empty() {
            decision.state = State::Moving;
        }
        decision
    }
}

#[cfg(test)]
mod tests;
