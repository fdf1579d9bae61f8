//! The settings that should be visible in the running program.

use numapilot_topology::CpuSet;

use super::Prepared;
use crate::effect::{Expected, Item, Policy};
use crate::{NumaBalancing, Plan, Thp};

/// The settings of a plan that a prepared command makes. `malloc` is the one that the program should
/// use.
pub(super) fn expected_effects(plan: &Plan, prepared: &Prepared, malloc: Option<Item>) -> Expected {
    let mut items = Vec::new();
    let noted = |subject: &str| prepared.notes.iter().any(|note| note.subject == subject);
    if let Some((mode, flags, nodes)) = &prepared.steps.memory {
        items.push(Item::Memory(Policy::of_step(*mode, *flags, nodes)));
    }
    if let Some(cpus) = &prepared.steps.cpus {
        items.push(Item::Cpus(CpuSet::from_words(cpus)));
    }
    if let Some(placement) = &prepared.placement {
        items.push(Item::Threads(placement.order().iter().copied().collect()));
    }
    items.extend(malloc);
    if plan.thp != Thp::Inherit && !noted(&format!("thp {}", plan.thp.name())) {
        items.push(Item::Thp(plan.thp));
    }
    let balancing = format!("numa-balancing {}", plan.numa_balancing.name());
    if plan.numa_balancing != NumaBalancing::Inherit && !noted(&balancing) {
        items.push(Item::NumaBalancing(plan.numa_balancing));
    }
    if plan.memory.balancing && !noted("memory balancing") {
        items.push(Item::Balancing);
    }
    Expected(items)
}
