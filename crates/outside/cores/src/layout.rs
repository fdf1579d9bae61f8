//! Chooses which CPUs a target gets, once their number is known.
//!
//! Source: prt-pro section 3.2: core(i, j) = d*i + j with 0 <= j < d (the formula there says
//! 1 <= j, the example 0). *Sparse* takes a core of each node in turn, *dense* fills a node
//! first. On machines of today the CPU lists of the nodes stand for the formula, and the SMT
//! siblings of a node come after its whole cores. *Adaptive* is what the paper leaves as
//! future work: cores go where the target's pages are and the memory controller has room.

use std::collections::BTreeMap;

use numapilot_place::ThreadPlacement;
use numapilot_place::threads::order;
use numapilot_topology::{CpuId, CpuSet, Machine, NodeId};
use serde::Serialize;

/// How cores are spread over the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// One CPU of each node in turn.
    Sparse,
    /// One node after the other.
    Dense,
    /// By the target's pages and the free capacity of the memory controllers.
    Adaptive,
}

/// How well a node suits a target's threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeUse {
    /// Bytes of the target's memory on the node.
    pub bytes: u64,
    /// Free share of the memory controller, 0 to 1; 1 if unknown.
    pub room: f64,
}

/// The nodes that a target uses.
pub type NodeUses = BTreeMap<NodeId, NodeUse>;

/// The CPUs of one target in the order in which it gets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    order: Vec<CpuId>,
    nodes: BTreeMap<CpuId, NodeId>,
    adaptive: bool,
}

impl Layout {
    /// The layout for a target that may use `allowed`. Only CPUs that are online count.
    #[must_use]
    pub fn of(machine: &Machine, allowed: &CpuSet, spread: Spread) -> Self {
        let placement = match spread {
            Spread::Sparse => ThreadPlacement::Sparse,
            // Without page counts, the nearest node comes next.
            Spread::Dense | Spread::Adaptive => ThreadPlacement::Dense,
        };
        let nodes = machine.cpus.iter().filter_map(|cpu| Some((cpu.id, cpu.node?))).collect();
        let adaptive = spread == Spread::Adaptive;
        Self { order: order(machine, allowed, placement), nodes, adaptive }
    }

    /// All CPUs that the target may use.
    #[must_use]
    pub fn all(&self) -> CpuSet {
        self.order.iter().copied().collect()
    }

    /// Chooses `count` CPUs, or as many as are `free`. It keeps as many as possible of those that
    /// the target holds, so that its threads stay where they are.
    #[must_use]
    pub fn choose(&self, held: &CpuSet, count: u32, free: &CpuSet, uses: &NodeUses) -> CpuSet {
        let usable: Vec<CpuId> =
            self.order.iter().copied().filter(|cpu| free.contains(*cpu)).collect();
        let mut chosen: CpuSet = usable.iter().copied().filter(|cpu| held.contains(*cpu)).collect();
        let count = count as usize;
        while chosen.len() < count {
            let left = usable.iter().copied().filter(|cpu| !chosen.contains(*cpu));
            let Some(next) = self.best(left, &chosen, uses) else { break };
            chosen.insert(next);
        }
        while chosen.len() > count {
            let Some(last) = self.worst(&usable, &chosen, uses) else { break };
            chosen.remove(last);
        }
        chosen
    }

    /// The CPU to add: the first in order, or of the node with the most use for one more core
    /// (D'Hondt's rule gives each node cores in proportion to its use).
    fn best(
        &self,
        left: impl Iterator<Item = CpuId>,
        chosen: &CpuSet,
        uses: &NodeUses,
    ) -> Option<CpuId> {
        let worth = |cpu: CpuId| self.worth(cpu, chosen, uses, 1.0);
        // Takes the first of equals; `max_by` would take the last.
        left.fold(None, |best, cpu| match best {
            Some(best) if worth(best) >= worth(cpu) => Some(best),
            _ => Some(cpu),
        })
    }

    /// The CPU to take back: the last in order, or of the node with the least use for its cores.
    fn worst(&self, usable: &[CpuId], chosen: &CpuSet, uses: &NodeUses) -> Option<CpuId> {
        let worth = |cpu: &CpuId| self.worth(*cpu, chosen, uses, 0.0);
        let held = usable.iter().rev().copied().filter(|cpu| chosen.contains(*cpu));
        held.min_by(|a, b| worth(a).total_cmp(&worth(b)))
    }

    /// Use of a CPU's node, divided by the target's cores there plus `more`.
    fn worth(&self, cpu: CpuId, chosen: &CpuSet, uses: &NodeUses, more: f64) -> f64 {
        let Some(node) = self.nodes.get(&cpu).filter(|_| self.adaptive) else { return 0.0 };
        let Some(node_use) = uses.get(node) else { return 0.0 };
        let there = chosen.iter().filter(|held| self.nodes.get(held) == Some(node)).count();
        let room = node_use.room.clamp(0.0, 1.0);
        node_use.bytes as f64 * room / (there as f64 + more).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(cpus: &CpuSet) -> Vec<u32> {
        cpus.iter().map(|cpu| cpu.0).collect()
    }

    fn layout(spread: Spread) -> (Layout, CpuSet) {
        let machine = Machine::uniform(4, 4);
        let all = machine.allowed.cpus.clone();
        (Layout::of(&machine, &all, spread), all)
    }

    fn uses(nodes: &[(u32, u64, f64)]) -> NodeUses {
        nodes
            .iter()
            .map(|(n, bytes, room)| (NodeId(*n), NodeUse { bytes: *bytes, room: *room }))
            .collect()
    }

    #[test]
    fn the_papers_example() {
        let none = NodeUses::new();
        for (spread, expected) in [(Spread::Sparse, [0, 4, 8, 12]), (Spread::Dense, [0, 1, 2, 3])] {
            let (layout, all) = layout(spread);
            let four = layout.choose(&CpuSet::new(), 4, &all, &none);
            assert_eq!(ids(&four), expected);
            let one = layout.choose(&four, 1, &all, &none);
            assert_eq!(ids(&one), [0], "the last comes back first");
        }
    }

    #[test]
    fn cores_go_where_the_pages_are() {
        let (layout, all) = layout(Spread::Adaptive);
        let pages = uses(&[(1, 100, 1.0), (2, 300, 1.0)]);
        let four = layout.choose(&CpuSet::new(), 4, &all, &pages);
        assert_eq!(ids(&four), [4, 8, 9, 10]);
        // The node with the least use for its cores loses one first.
        assert_eq!(
            ids(&layout.choose(&four, 3, &all, &uses(&[(1, 1, 1.0), (2, 300, 1.0)]))),
            [8, 9, 10]
        );
        // A node whose controller is busy is not chosen.
        let full = uses(&[(1, 100, 1.0), (2, 300, 0.1)]);
        assert_eq!(ids(&layout.choose(&CpuSet::new(), 2, &all, &full)), [4, 5]);
        // Without page counts: one node after the other.
        assert_eq!(ids(&layout.choose(&CpuSet::new(), 3, &all, &NodeUses::new())), [0, 1, 2]);
    }

    fn spread() -> impl Strategy<Value = Spread> {
        prop_oneof![Just(Spread::Sparse), Just(Spread::Dense), Just(Spread::Adaptive)]
    }

    proptest! {
        #[test]
        fn as_many_as_asked_of_what_is_free(
            spread in spread(), held in any::<u16>(), free in any::<u16>(), count in 0u32..20,
            pages in proptest::collection::vec((0u32..5, 0u64..1000, 0.0..1.0f64), 0..5)
        ) {
            let (layout, _) = layout(spread);
            let held = CpuSet::from_words(&[held.into()]);
            let free = CpuSet::from_words(&[free.into()]);
            let chosen = layout.choose(&held, count, &free, &uses(&pages));
            prop_assert!(chosen.is_subset(&free));
            prop_assert_eq!(chosen.len(), free.len().min(count as usize));
            // No thread moves without need.
            let kept = held.intersection(&free);
            prop_assert!(chosen.is_subset(&kept) || kept.is_subset(&chosen));
            // Choosing again changes nothing.
            prop_assert_eq!(layout.choose(&chosen, count, &free, &uses(&pages)), chosen);
        }
    }
}
