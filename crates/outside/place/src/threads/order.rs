//! The order in which threads take the CPUs.
//!
//! Source: systematic-numa-study section 3.2 (sparse, dense), prt-pro (core(i, j) = d*i + j: sparse
//! {0, 4, 8, 12}, dense {0, 1, 2, 3}), numalloc section 3.2 (node-interleaved, node-saturate). The
//! papers' machines have no SMT and consecutive numbers. This module uses the CPU lists of the
//! nodes, and the second thread of a core comes after the first of every core: two threads of one
//! core share its execution units and L1, so a whole core is better.

use std::collections::BTreeMap;

use numapilot_topology::{CpuId, CpuSet, Machine, NodeId};

use crate::ThreadPlacement;

/// The online CPUs of `allowed` in the order in which threads take them. Empty if the scheduler
/// decides.
///
/// Sparse takes one CPU of each node in turn, first over whole cores, then over their SMT siblings.
/// Dense fills a node, including siblings, before it goes to the node nearest to those already
/// filled. Both start at the node with the lowest id. CPUs whose node is unknown come last.
#[must_use]
pub fn order(machine: &Machine, allowed: &CpuSet, placement: ThreadPlacement) -> Vec<CpuId> {
    let nodes = cpus_by_node(machine, allowed);
    match placement {
        ThreadPlacement::None => Vec::new(),
        ThreadPlacement::Sparse => sparse(&nodes),
        ThreadPlacement::Dense => nearest_first(machine, &nodes)
            .into_iter()
            .flat_map(|node| nodes[&node].iter().flatten().copied())
            .collect(),
    }
}

/// CPUs of a node by sibling rank: `[0]` the first thread of each core, `[1]` the second.
type ByRank = Vec<Vec<CpuId>>;

/// The key `None` has the CPUs whose node is unknown.
fn cpus_by_node(machine: &Machine, allowed: &CpuSet) -> BTreeMap<Option<NodeId>, ByRank> {
    let mut nodes: BTreeMap<Option<NodeId>, ByRank> = BTreeMap::new();
    for cpu in machine.cpus.iter().filter(|cpu| cpu.online && allowed.contains(cpu.id)) {
        // Only usable siblings count: if the first thread of a core is outside the cpuset, its
        // second one counts as the first.
        let usable = cpu.siblings.intersection(allowed);
        let rank = usable.iter().filter(|id| id < &cpu.id && is_online(machine, *id)).count();
        let ranks = nodes.entry(cpu.node).or_default();
        if ranks.len() <= rank {
            ranks.resize(rank + 1, Vec::new());
        }
        ranks[rank].push(cpu.id);
    }
    nodes
}

fn is_online(machine: &Machine, id: CpuId) -> bool {
    machine.cpu(id).is_some_and(|cpu| cpu.online)
}

fn sparse(nodes: &BTreeMap<Option<NodeId>, ByRank>) -> Vec<CpuId> {
    let ranks = nodes.values().map(Vec::len).max().unwrap_or(0);
    let mut cpus = Vec::new();
    for rank in 0..ranks {
        // The key `None` sorts first, and its CPUs come last.
        let homeless = nodes.get(&None).into_iter();
        let known = nodes.iter().filter(|(node, _)| node.is_some()).map(|(_, cpus)| cpus);
        let lists: Vec<&[CpuId]> =
            known.chain(homeless).filter_map(|cpus| cpus.get(rank)).map(Vec::as_slice).collect();
        let longest = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        for turn in 0..longest {
            cpus.extend(lists.iter().filter_map(|list| list.get(turn)));
        }
    }
    cpus
}

/// The nodes. Each one is the nearest (by SLIT distance) to those before it.
fn nearest_first(
    machine: &Machine,
    nodes: &BTreeMap<Option<NodeId>, ByRank>,
) -> Vec<Option<NodeId>> {
    let mut left: Vec<Option<NodeId>> = nodes.keys().copied().collect();
    // CPUs without a node come last.
    left.sort_by_key(|node| node.is_none());
    let mut filled = Vec::new();
    while !left.is_empty() {
        let distance = |node: &Option<NodeId>| {
            let from = |other: &Option<NodeId>| machine.distance((*other)?, (*node)?);
            filled.iter().map(|other| from(other).map_or(u64::MAX >> 32, u64::from)).sum::<u64>()
        };
        let nearest = (0..left.len()).min_by_key(|i| distance(&left[*i])).unwrap_or(0);
        let node = left.remove(nearest);
        filled.push(node);
    }
    filled
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(cpus: &[CpuId]) -> Vec<u32> {
        cpus.iter().map(|c| c.0).collect()
    }

    /// A machine whose CPUs are given as (node, core, online); the id is the position.
    fn machine_of(cpus: &[(u32, u32, bool)]) -> Machine {
        let mut machine = Machine::uniform(4, 1);
        machine.cpus = (0..)
            .zip(cpus)
            .map(|(id, &(node, core, online))| numapilot_topology::Cpu {
                id: CpuId(id),
                node: Some(NodeId(node)),
                online,
                core: Some(core),
                package: Some(node),
                siblings: (0..)
                    .zip(cpus)
                    .filter(|(_, other)| (other.0, other.1) == (node, core))
                    .map(|(id, _)| CpuId(id))
                    .collect(),
            })
            .collect();
        machine.allowed.cpus = machine.cpus.iter().map(|c| c.id).collect();
        machine
    }

    #[test]
    fn the_papers_example() {
        let machine = Machine::uniform(4, 4);
        let all = &machine.allowed.cpus;
        let sparse = order(&machine, all, ThreadPlacement::Sparse);
        let dense = order(&machine, all, ThreadPlacement::Dense);
        assert_eq!(ids(&sparse)[..6], [0, 4, 8, 12, 1, 5]);
        assert_eq!(ids(&dense), (0..16).collect::<Vec<_>>());
        assert!(order(&machine, all, ThreadPlacement::None).is_empty());
    }

    #[test]
    fn siblings_come_after_whole_cores() {
        // Two nodes, two cores each; Linux numbers the second threads after all first ones.
        let first = [(0, 0, true), (0, 1, true), (1, 0, true), (1, 1, true)];
        let machine = machine_of(&[first, first].concat());
        let all = &machine.allowed.cpus;
        assert_eq!(ids(&order(&machine, all, ThreadPlacement::Sparse)), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(ids(&order(&machine, all, ThreadPlacement::Dense)), [0, 1, 4, 5, 2, 3, 6, 7]);
    }

    #[test]
    fn a_core_whose_first_thread_is_denied_counts_as_whole() {
        let first = [(0, 0, true), (0, 1, true)];
        let machine = machine_of(&[first, first].concat());
        let allowed = CpuSet::parse_list("1-3").unwrap();
        assert_eq!(ids(&order(&machine, &allowed, ThreadPlacement::Dense)), [1, 2, 3]);
    }

    #[test]
    fn offline_cpus_are_left_out() {
        let machine = machine_of(&[(0, 0, false), (0, 0, true), (1, 0, true)]);
        let all = &machine.allowed.cpus;
        assert_eq!(ids(&order(&machine, all, ThreadPlacement::Sparse)), [1, 2]);
    }

    #[test]
    fn cpus_of_no_node_come_last() {
        let mut machine = machine_of(&[(0, 0, true), (0, 1, true), (1, 0, true), (1, 1, true)]);
        machine.cpus[0].node = None;
        let all = &machine.allowed.cpus;
        assert_eq!(ids(&order(&machine, all, ThreadPlacement::Sparse)), [1, 2, 0, 3]);
        assert_eq!(ids(&order(&machine, all, ThreadPlacement::Dense)), [1, 2, 3, 0]);
    }

    #[test]
    fn dense_goes_to_the_nearest_node_next() {
        let mut machine = Machine::uniform(4, 1);
        // Nodes 0 and 2 are one package, 1 and 3 the other.
        for (i, row) in machine.distances.iter_mut().enumerate() {
            for (j, distance) in row.iter_mut().enumerate() {
                *distance = match (i, j) {
                    _ if i == j => 10,
                    _ if i % 2 == j % 2 => 12,
                    _ => 32,
                };
            }
        }
        let all = &machine.allowed.cpus;
        assert_eq!(ids(&order(&machine, all, ThreadPlacement::Dense)), [0, 2, 1, 3]);
    }

    prop_compose! {
        /// Machines of any shape: unequal nodes, any SMT width, holes, any numbering.
        fn any_machine()(cpus in proptest::collection::vec((0u32..4, 0u32..6, prop::bool::weighted(0.9)), 1..48))
            -> Machine
        {
            machine_of(&cpus)
        }
    }

    proptest! {
        #[test]
        fn every_usable_cpu_once(machine in any_machine(), keep in any::<u64>()) {
            let allowed = CpuSet::from_words(&[keep]);
            let usable = machine.online_cpus().intersection(&allowed);
            for placement in [ThreadPlacement::Sparse, ThreadPlacement::Dense] {
                let order = order(&machine, &allowed, placement);
                prop_assert_eq!(order.len(), usable.len());
                prop_assert_eq!(order.into_iter().collect::<CpuSet>(), usable.clone());
            }
        }

        /// For any number of threads two nodes differ by at most one, unless the smaller one has no
        /// more CPUs of the rank in use.
        #[test]
        fn sparse_keeps_nodes_level(nodes in 1u32..9, cpus in 1u32..9, threads in 0usize..64) {
            let machine = Machine::uniform(nodes, cpus);
            let order = order(&machine, &machine.allowed.cpus, ThreadPlacement::Sparse);
            let mut count = vec![0u32; nodes as usize];
            for cpu in order.iter().take(threads) {
                count[(cpu.0 / cpus) as usize] += 1;
            }
            let (least, most) = (count.iter().min().unwrap(), count.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{count:?}");
        }

        /// No core gets a second thread while another usable core (of the machine, or for
        /// dense of the node) has none.
        #[test]
        fn siblings_last(machine in any_machine()) {
            let all = &machine.allowed.cpus;
            for placement in [ThreadPlacement::Sparse, ThreadPlacement::Dense] {
                let order = order(&machine, all, placement);
                let core = |id: CpuId| machine.cpu(id).map(|c| (c.node, c.core)).unwrap();
                for (i, second) in order.iter().enumerate() {
                    if !order[..i].iter().any(|first| core(*first) == core(*second)) {
                        continue;
                    }
                    for later in &order[i..] {
                        let fresh = !order[..i].iter().any(|first| core(*first) == core(*later));
                        let in_scope = placement == ThreadPlacement::Sparse || core(*later).0 == core(*second).0;
                        prop_assert!(!(fresh && in_scope), "{order:?}: {second} before {later}");
                    }
                }
            }
        }

        /// Dense leaves a node only when it is full.
        #[test]
        fn dense_visits_a_node_once(machine in any_machine()) {
            let order = order(&machine, &machine.allowed.cpus, ThreadPlacement::Dense);
            let mut visited: Vec<Option<NodeId>> =
                order.iter().map(|id| machine.cpu(*id).and_then(|c| c.node)).collect();
            visited.dedup();
            let distinct: std::collections::BTreeSet<_> = visited.iter().collect();
            prop_assert_eq!(distinct.len(), visited.len());
        }

        /// Only the structure counts: other CPU numbers give the same sequence of nodes.
        #[test]
        fn numbering_does_not_change_the_nodes(machine in any_machine()) {
            let mut renumbered = machine.clone();
            for cpu in &mut renumbered.cpus {
                cpu.id = CpuId(cpu.id.0 * 3 + 5);
                cpu.siblings = cpu.siblings.iter().map(|s| CpuId(s.0 * 3 + 5)).collect();
            }
            let all = renumbered.cpus.iter().map(|c| c.id).collect();
            for placement in [ThreadPlacement::Sparse, ThreadPlacement::Dense] {
                let before = order(&machine, &machine.allowed.cpus, placement);
                let after = order(&renumbered, &all, placement);
                let mapped: Vec<CpuId> = before.iter().map(|c| CpuId(c.0 * 3 + 5)).collect();
                prop_assert_eq!(after, mapped);
            }
        }
    }
}
