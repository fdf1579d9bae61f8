//! Several targets on one machine: who gets which CPUs, when it is known how many each has.

use numapilot_topology::{CpuId, CpuSet};

use crate::layout::{Layout, NodeUses};

/// One target.
#[derive(Clone, Debug)]
pub struct Seat<'a> {
    /// The order in which it gets CPUs.
    pub layout: &'a Layout,
    /// CPUs that it may have.
    pub available: &'a CpuSet,
    /// CPUs that it has.
    pub held: &'a CpuSet,
    /// Nodes that it uses.
    pub uses: &'a NodeUses,
    /// So many are granted.
    pub granted: u32,
    /// So many it must have.
    pub minimum: u32,
}

/// CPUs for each target: no CPU twice, nobody more than is granted, and nobody below his
/// minimum as long as another has more than his.
#[must_use]
pub fn seat(seats: &[Seat<'_>]) -> Vec<CpuSet> {
    let mut taken = CpuSet::new();
    let mut all: Vec<CpuSet> = Vec::with_capacity(seats.len());
    // Nobody moves who need not.
    for seat in seats {
        let own = seat.held.intersection(seat.available).difference(&taken);
        let kept = seat.layout.choose(&own, seat.granted.min(count(&own)), &own, seat.uses);
        taken = taken.union(&kept);
        all.push(kept);
    }
    // Who has the least to choose from is first.
    let mut order: Vec<usize> = (0..seats.len()).collect();
    order.sort_by_key(|at| seats[*at].available.len());
    for &at in &order {
        let seat = &seats[at];
        let free = seat.available.difference(&taken).union(&all[at]);
        all[at] = seat.layout.choose(&all[at], seat.granted, &free, seat.uses);
        taken = taken.union(&all[at]);
    }
    for at in order {
        while count(&all[at]) < seats[at].minimum {
            let Some((from, cpu)) = spare(seats, &all, at) else { break };
            all[from].remove(cpu);
            all[at].insert(cpu);
        }
    }
    all
}

/// A CPU that `for_whom` may have, of a target that has more than it must.
fn spare(seats: &[Seat<'_>], all: &[CpuSet], for_whom: usize) -> Option<(usize, CpuId)> {
    (0..seats.len())
        .filter(|at| *at != for_whom && count(&all[*at]) > seats[*at].minimum)
        .find_map(|at| Some((at, all[at].intersection(seats[for_whom].available).first()?)))
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
        let large = Seat {
            layout: &layout,
            available: &everything,
            held: &everything,
            uses: &uses,
            granted: 3,
            minimum: 1,
        };
        let small = Seat { available: &first, held: &none, granted: 1, ..large.clone() };
        let seated = seat(&[large, small]);
        assert_eq!((seated[0].to_string(), seated[1].to_string()), ("1-2".into(), "0".into()));
    }

    proptest! {
        #[test]
        fn no_cpu_twice_and_nobody_below_his_minimum(
            targets in proptest::collection::vec((any::<u16>(), 1u32..4, 0u32..16), 1..5),
            sparse in any::<bool>()
        ) {
            let machine = Machine::uniform(4, 4);
            let everything = machine.allowed.cpus.clone();
            let spread = if sparse { Spread::Sparse } else { Spread::Dense };
            let layout = Layout::of(&machine, &everything, spread);
            let held: Vec<CpuSet> = targets.iter().map(|(bits, ..)| CpuSet::from_words(&[(*bits).into()])).collect();
            let uses = NodeUses::new();
            let claims: Vec<crate::share::Claim> = targets.iter()
                .map(|(_, minimum, wanted)| crate::share::Claim { minimum: *minimum, wanted: *wanted, weight: 1 })
                .collect();
            let granted = crate::share::share(&claims, 16);
            let seats: Vec<Seat<'_>> = held.iter().zip(&claims).zip(&granted)
                .map(|((held, claim), granted)| Seat {
                    layout: &layout, available: &everything, held, uses: &uses,
                    granted: *granted, minimum: claim.minimum,
                })
                .collect();
            let seated = seat(&seats);
            let mut taken = CpuSet::new();
            for (cpus, granted) in seated.iter().zip(&granted) {
                prop_assert!(cpus.intersection(&taken).is_empty());
                taken = taken.union(cpus);
                prop_assert_eq!(count(cpus), *granted);
            }
        }
    }
}
