//! Assigns CPUs to several targets on one machine, once the number for each is known.

use numapilot_topology::{CpuId, CpuSet};

use crate::layout::{Layout, NodeUses};

/// One target's input to the assignment.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The order in which it gets CPUs.
    pub layout: &'a Layout,
    /// CPUs that it may use.
    pub available: &'a CpuSet,
    /// CPUs that it has.
    pub held: &'a CpuSet,
    /// Nodes that it uses.
    pub uses: &'a NodeUses,
    /// The number of CPUs that it was granted.
    pub granted: u32,
    /// The fewest CPUs that it must have.
    pub minimum: u32,
}

/// The CPUs for each target. No CPU is assigned twice. No target holds more CPUs than its grant, or
/// fewer than its minimum while another exceeds its own.
#[must_use]
pub fn assign_cpus(requests: &[Request<'_>]) -> Vec<CpuSet> {
    let mut taken = CpuSet::new();
    let mut all: Vec<CpuSet> = Vec::with_capacity(requests.len());
    // No target moves without need.
    for request in requests {
        let own = request.held.intersection(request.available).difference(&taken);
        let kept =
            request.layout.choose(&own, request.granted.min(count(&own)), &own, request.uses);
        taken = taken.union(&kept);
        all.push(kept);
    }
    // The target with the smallest choice comes first.
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|at| requests[*at].available.len());
    for &at in &order {
        let request = &requests[at];
        let free = request.available.difference(&taken).union(&all[at]);
        all[at] = request.layout.choose(&all[at], request.granted, &free, request.uses);
        taken = taken.union(&all[at]);
    }
    for at in order {
        while count(&all[at]) < requests[at].minimum {
            let Some((from, cpu)) = spare(requests, &all, at) else { break };
            all[from].remove(cpu);
            all[at].insert(cpu);
        }
    }
    all
}

/// A CPU that `for_whom` may use, taken from a target that has more than its minimum.
fn spare(requests: &[Request<'_>], all: &[CpuSet], for_whom: usize) -> Option<(usize, CpuId)> {
    (0..requests.len())
        .filter(|at| *at != for_whom && count(&all[*at]) > requests[*at].minimum)
        .find_map(|at| Some((at, all[at].intersection(requests[for_whom].available).first()?)))
}

fn count(cpus: &CpuSet) -> u32 {
    u32::try_from(cpus.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use numapilot_topology::Machine;
    use proptest::prelude::*;

    use super::*;
    use crate::layout::Spread;

    #[test]
    fn a_target_with_few_cpus_to_choose_from_gets_its_minimum() {
        let machine = Machine::uniform(1, 4);
        let layout = Layout::of(&machine, &machine.allowed.cpus, Spread::Dense);
        let everything = layout.all();
        let first: CpuSet = CpuSet::parse_list("0").unwrap();
        let uses = NodeUses::new();
        let none = CpuSet::new();
        let large = Request {
            layout: &layout,
            available: &everything,
            held: &everything,
            uses: &uses,
            granted: 3,
            minimum: 1,
        };
        let small = Request { available: &first, held: &none, granted: 1, ..large.clone() };
        let assigned = assign_cpus(&[large, small]);
        assert_eq!((assigned[0].to_string(), assigned[1].to_string()), ("1-2".into(), "0".into()));
    }

    proptest! {
        #[test]
        fn no_cpu_is_assigned_twice_and_every_target_has_its_minimum(
            targets in proptest::collection::vec((any::<u16>(), 1u32..4, 0u32..16), 1..5),
            sparse in any::<bool>()
        ) {
            let machine = Machine::uniform(4, 4);
            let everything = machine.allowed.cpus.clone();
            let spread = if sparse { Spread::Sparse } else { Spread::Dense };
            let layout = Layout::of(&machine, &everything, spread);
            let held: Vec<CpuSet> = targets.iter().map(|(bits, ..)| CpuSet::from_words(&[(*bits).into()])).collect();
            let uses = NodeUses::new();
            let demands: Vec<crate::allocation::Demand> = targets.iter()
                .map(|(_, minimum, wanted)| crate::allocation::Demand { minimum: *minimum, wanted: *wanted, weight: 1 })
                .collect();
            let granted = crate::allocation::allocate_cores(&demands, 16);
            let requests: Vec<Request<'_>> = held.iter().zip(&demands).zip(&granted)
                .map(|((held, demand), granted)| Request {
                    layout: &layout, available: &everything, held, uses: &uses,
                    granted: *granted, minimum: demand.minimum,
                })
                .collect();
            let assigned = assign_cpus(&requests);
            let mut taken = CpuSet::new();
            for (cpus, granted) in assigned.iter().zip(&granted) {
                prop_assert!(cpus.intersection(&taken).is_empty());
                taken = taken.union(cpus);
                prop_assert_eq!(count(cpus), *granted);
            }
        }
    }
}
