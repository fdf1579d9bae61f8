//! Resolves the strings of a plan against a machine: CPUs and nodes in the kernel's numbers.

use std::path::Path;

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_topology::{
    CpuId, CpuSet, Extent, Machine, NodeSet, NodestringError, parse_cpu_nodes, parse_cpus,
    parse_nodes, read_extent,
};

use crate::{
    Denial, MemoryMode, NumaBalancing, PlaceError, Plan, ThreadPlacement, devices, threads,
};

/// CPUs and memory of a plan, in the numbers of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// CPUs on which the program may run. `None` does not change the affinity.
    pub cpus: Option<CpuSet>,
    /// Memory policy. `None` does not change it.
    pub memory: Option<MemoryTarget>,
    /// CPUs in the order in which threads take them. If empty, threads are not placed.
    pub order: Vec<CpuId>,
    /// The CPUs and nodes among which these were chosen.
    pub reach: Reach,
}

/// A memory policy for set_mempolicy(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTarget {
    /// Kernel mode.
    pub mode: Mode,
    /// Kernel flags (`mempolicy::F_*`).
    pub flags: i32,
    /// Nodes; empty for `Local`.
    pub nodes: NodeSet,
}

/// The CPUs and nodes that a plan may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The CPUs and nodes of this process's affinity and cpuset.
    #[default]
    Allowed,
    /// All CPUs and nodes of the machine (numactl's `--all`). The kernel may refuse some.
    All,
}

impl Reach {
    /// The option for it, which is the same for numactl(8) and `numapilot run`.
    #[must_use]
    pub const fn option(self) -> Option<&'static str> {
        match self {
            Self::Allowed => None,
            Self::All => Some("--all"),
        }
    }

    /// Sets the machine's `allowed` accordingly.
    pub fn apply(self, machine: &mut Machine) {
        if self == Self::All {
            machine.allowed.nodes = machine.memory_nodes();
            let of_nodes = machine.cpus_of(&machine.node_ids());
            machine.allowed.cpus = machine.online_cpus().union(&of_nodes);
        }
    }
}

impl Plan {
    /// The part of the machine on which [`Targets`] depend, or `None` if they do not depend on it.
    fn extent(&self) -> Option<Extent> {
        if self.cpus.is_some() || self.threads != ThreadPlacement::None {
            return Some(Extent::Cpus);
        }
        (self.cpu_nodes.is_some() || self.memory.mode.needs_nodes()).then_some(Extent::Nodes)
    }
}

impl Targets {
    /// Resolves a plan on a machine, to which [`Reach::apply`] was applied if it may reach further.
    ///
    /// # Errors
    /// [`PlaceError`] for nodes or CPUs that do not exist or that this process may not use.
    pub fn of(plan: &Plan, machine: &Machine) -> Result<Self, PlaceError> {
        let cpus = cpus(plan, machine)?;
        let usable = cpus.as_ref().unwrap_or(&machine.allowed.cpus);
        let order = threads::order(machine, usable, plan.threads);
        let reach = Reach::Allowed;
        Ok(Self { memory: memory(plan, Some(machine))?, cpus, order, reach })
    }

    /// Resolves a plan on the running machine. It reads only the parts of the machine that the plan
    /// needs, so starting a program stays cheap.
    ///
    /// # Errors
    /// As [`Targets::of`], and if the machine cannot be read.
    pub fn here(plan: &Plan, reach: Reach) -> Result<Self, PlaceError> {
        match plan.extent() {
            Some(extent) => {
                let mut machine = read_extent(Path::new("/"), extent)?;
                reach.apply(&mut machine);
                Ok(Self { reach, ..Self::of(plan, &machine)? })
            }
            None => Ok(Self { memory: memory(plan, None)?, reach, ..Self::default() }),
        }
    }
}

fn cpus(plan: &Plan, machine: &Machine) -> Result<Option<CpuSet>, PlaceError> {
    let listed = plan.cpus.as_deref().map(|text| listed(text, machine)).transpose()?;
    let Some(text) = plan.cpu_nodes.as_deref() else { return Ok(listed) };
    let nodes = parse_nodes_with_cpus(text, machine)?;
    let of_nodes = machine.cpus_of(&nodes).intersection(&machine.allowed.cpus);
    if of_nodes.is_empty() {
        return Err(PlaceError::NoCpus {
            nodes: nodes.to_string(),
            usable: usable_cpu_nodes(machine).to_string(),
        });
    }
    let Some(listed) = listed else { return Ok(Some(of_nodes)) };
    let both = listed.intersection(&of_nodes);
    if both.is_empty() {
        return Err(PlaceError::Disjoint { cpus: listed.to_string(), nodes: nodes.to_string() });
    }
    Ok(Some(both))
}

fn listed(text: &str, machine: &Machine) -> Result<CpuSet, PlaceError> {
    parse_cpus(text, machine).map_err(|error| match error {
        NodestringError::NotAllowed { denied, .. } => denied_cpus(denied),
        error => error.into(),
    })
}

fn denied_cpus(cpus: String) -> PlaceError {
    // The text was printed from a set, so parsing succeeds.
    let denial = Denial::of(&CpuSet::parse_list(&cpus).unwrap_or_default());
    PlaceError::DeniedCpus { cpus, denial }
}

/// `-N` selects CPUs. A cpuset that excludes a node's memory does not exclude its CPUs.
fn parse_nodes_with_cpus(text: &str, machine: &Machine) -> Result<NodeSet, PlaceError> {
    match parse_cpu_nodes(&devices::resolve(text)?, machine) {
        Ok(nodes) => Ok(nodes),
        // The general message is about memory, so this one names the CPUs.
        Err(NodestringError::NotAllowed { denied, allowed, .. }) => {
            let nodes = NodeSet::parse_list(&denied).unwrap_or_default();
            let cpus = machine.cpus_of(&nodes);
            if machine.cpu_nodes().is_empty() {
                Err(PlaceError::UnknownCpus { nodes: denied })
            } else if cpus.is_empty() {
                Err(PlaceError::NoCpus { nodes: denied, usable: allowed })
            } else {
                Err(denied_cpus(cpus.to_string()))
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn usable_cpu_nodes(machine: &Machine) -> NodeSet {
    machine
        .nodes
        .iter()
        .filter(|n| !n.cpus.intersection(&machine.allowed.cpus).is_empty())
        .map(|n| n.id)
        .collect()
}

fn memory(plan: &Plan, machine: Option<&Machine>) -> Result<Option<MemoryTarget>, PlaceError> {
    let policy = &plan.memory;
    if policy.balancing && plan.numa_balancing == NumaBalancing::Off {
        return Err(PlaceError::Contradiction);
    }
    let mode = match policy.mode {
        // The kernel samples only areas whose policy has MPOL_F_MOF. The system default has it, and
        // an explicit policy does not. So explicit `local` is first touch without AutoNUMA
        // (mm/mempolicy.c, vma_policy_mof).
        MemoryMode::Inherit if plan.numa_balancing == NumaBalancing::Off => Mode::Local,
        MemoryMode::Inherit => return Ok(None),
        MemoryMode::Local => Mode::Local,
        MemoryMode::Interleave => Mode::Interleave,
        MemoryMode::WeightedInterleave => Mode::WeightedInterleave,
        MemoryMode::Bind => Mode::Bind,
        MemoryMode::Preferred => Mode::Preferred,
        MemoryMode::PreferredMany => Mode::PreferredMany,
    };
    let nodes = match machine {
        Some(machine) if policy.mode.needs_nodes() => memory_nodes(plan, machine)?,
        _ => NodeSet::new(),
    };
    let sampled = policy.balancing || plan.numa_balancing == NumaBalancing::On;
    let flags = match mode {
        Mode::Bind | Mode::PreferredMany if sampled => mempolicy::F_NUMA_BALANCING,
        _ => 0,
    };
    Ok(Some(MemoryTarget { mode, flags, nodes }))
}

fn memory_nodes(plan: &Plan, machine: &Machine) -> Result<NodeSet, PlaceError> {
    let text = match plan.memory.nodes.as_str() {
        "" => "all",
        text => text,
    };
    let nodes = match parse_nodes(&devices::resolve(text)?, machine) {
        // A node without memory is outside every cpuset, but that is not the reason.
        Err(NodestringError::NotAllowed { denied, allowed, .. }) => {
            let asked = NodeSet::parse_list(&denied).unwrap_or_default();
            return Err(if asked.intersection(&machine.memory_nodes()).is_empty() {
                PlaceError::NoMemory { nodes: denied, usable: allowed }
            } else {
                PlaceError::DeniedNodes { nodes: denied, usable: allowed }
            });
        }
        nodes => nodes?,
    };
    let with_memory = nodes.intersection(&machine.memory_nodes());
    if with_memory.is_empty() {
        return Err(PlaceError::NoMemory {
            nodes: nodes.to_string(),
            usable: machine.memory_nodes().intersection(&machine.allowed.nodes).to_string(),
        });
    }
    if plan.memory.mode == MemoryMode::Preferred && with_memory.len() > 1 {
        return Err(PlaceError::OnePreferred { nodes: nodes.to_string() });
    }
    Ok(with_memory)
}

#[cfg(test)]
mod tests {
    use numapilot_topology::NodeId;

    use super::*;
    use crate::MemoryPolicy;

    fn plan(mode: MemoryMode, nodes: &str) -> Plan {
        let memory = MemoryPolicy { mode, nodes: nodes.into(), balancing: false };
        Plan { memory, ..Plan::default() }
    }

    fn memory_of(plan: &Plan) -> Option<(Mode, i32, String)> {
        let target = Targets::of(plan, &Machine::uniform(4, 2)).unwrap().memory?;
        Some((target.mode, target.flags, target.nodes.to_string()))
    }

    #[test]
    fn modes_become_kernel_modes() {
        let of = |mode, nodes| memory_of(&plan(mode, nodes));
        assert_eq!(of(MemoryMode::Inherit, ""), None);
        assert_eq!(of(MemoryMode::Local, ""), Some((Mode::Local, 0, String::new())));
        assert_eq!(of(MemoryMode::Interleave, ""), Some((Mode::Interleave, 0, "0-3".into())));
        assert_eq!(
            of(MemoryMode::WeightedInterleave, "!0"),
            Some((Mode::WeightedInterleave, 0, "1-3".into()))
        );
        assert_eq!(of(MemoryMode::Preferred, "2"), Some((Mode::Preferred, 0, "2".into())));
        assert_eq!(
            of(MemoryMode::PreferredMany, "0,2"),
            Some((Mode::PreferredMany, 0, "0,2".into()))
        );
    }

    #[test]
    fn balancing_off_is_an_explicit_policy_and_on_a_flag() {
        let mut off = plan(MemoryMode::Inherit, "");
        off.numa_balancing = NumaBalancing::Off;
        assert_eq!(off.extent(), None);
        assert_eq!(memory_of(&off), Some((Mode::Local, 0, String::new())));
        assert_eq!(Targets::here(&off, Reach::Allowed).unwrap().memory.unwrap().mode, Mode::Local);
        let mut bound = plan(MemoryMode::Bind, "1");
        assert_eq!(memory_of(&bound), Some((Mode::Bind, 0, "1".into())));
        bound.memory.balancing = true;
        assert_eq!(memory_of(&bound), Some((Mode::Bind, mempolicy::F_NUMA_BALANCING, "1".into())));
    }

    #[test]
    fn what_is_read_suffices() {
        let all = numapilot_topology::read(Path::new("/")).unwrap();
        let node = all.nodes.iter().find(|n| !n.cpus.intersection(&all.allowed.cpus).is_empty());
        let cpu = all.allowed.cpus.first().unwrap();
        let plans = [
            plan(MemoryMode::Interleave, "all"),
            Plan { cpu_nodes: node.map(|n| n.id.to_string()), ..Plan::default() },
            Plan { cpus: Some(cpu.to_string()), ..Plan::default() },
            Plan { threads: ThreadPlacement::Sparse, ..Plan::default() },
            Plan { threads: ThreadPlacement::Dense, ..plan(MemoryMode::Interleave, "all") },
        ];
        for plan in plans {
            assert_eq!(
                Targets::here(&plan, Reach::Allowed).unwrap(),
                Targets::of(&plan, &all).unwrap(),
                "{plan}"
            );
        }
    }

    #[test]
    fn cpus_of_nodes_and_lists_intersect() {
        let machine = Machine::uniform(4, 2);
        let cpus = |cpus: Option<&str>, nodes: Option<&str>| {
            let plan = Plan {
                cpus: cpus.map(str::to_owned),
                cpu_nodes: nodes.map(str::to_owned),
                ..Plan::default()
            };
            Targets::of(&plan, &machine).map(|t| t.cpus.map(|c| c.to_string()))
        };
        assert_eq!(cpus(None, None).unwrap(), None);
        assert_eq!(cpus(None, Some("1,3")).unwrap().unwrap(), "2-3,6-7");
        assert_eq!(cpus(Some("+1"), None).unwrap().unwrap(), "1");
        assert_eq!(cpus(Some("0-2"), Some("1")).unwrap().unwrap(), "2");
        assert!(matches!(cpus(Some("0"), Some("1")), Err(PlaceError::Disjoint { .. })));
    }

    #[test]
    fn what_is_denied_is_distinguished_from_what_is_not_there() {
        let mut machine = Machine::uniform(3, 1);
        machine.allowed.nodes = [NodeId(0)].into_iter().collect();
        let error = Targets::of(&plan(MemoryMode::Bind, "1"), &machine).unwrap_err().to_string();
        assert!(error.starts_with("the memory of node 1 is outside the cpuset"), "{error}");
        machine.nodes[1].memory_bytes = 0;
        let error = Targets::of(&plan(MemoryMode::Bind, "1"), &machine).unwrap_err();
        assert!(matches!(error, PlaceError::NoMemory { .. }), "{error}");
        // The message does not claim that an existing CPU is missing.
        machine.allowed.cpus = [CpuId(0)].into_iter().collect();
        let on_node = Plan { cpu_nodes: Some("1".into()), ..Plan::default() };
        let error = Targets::of(&on_node, &machine).unwrap_err().to_string();
        assert!(error.starts_with("CPU 1 is "), "{error}");
        let on_cpu = Plan { cpus: Some("0-1".into()), ..Plan::default() };
        assert!(matches!(
            Targets::of(&on_cpu, &machine),
            Err(PlaceError::DeniedCpus { cpus, .. }) if cpus == "1"
        ));
        Reach::All.apply(&mut machine);
        assert_eq!(Targets::of(&on_cpu, &machine).unwrap().cpus.unwrap().to_string(), "0-1");
        assert_eq!(machine.allowed.nodes.to_string(), "0,2");
        // Without sysfs.
        machine.nodes.iter_mut().for_each(|node| node.cpus = CpuSet::new());
        assert!(matches!(Targets::of(&on_node, &machine), Err(PlaceError::UnknownCpus { .. })));
    }

    #[test]
    fn memory_only_and_cpu_only_nodes_are_named() {
        let mut machine = Machine::uniform(3, 1);
        machine.nodes[2].cpus = CpuSet::new();
        machine.nodes[1].memory_bytes = 0;
        let cpu_nodes = |n: &str| Plan { cpu_nodes: Some(n.into()), ..Plan::default() };
        let error = Targets::of(&cpu_nodes("2"), &machine).unwrap_err();
        assert_eq!(error.to_string(), "node 2 has no CPU to run on; nodes with CPUs: 0-1");
        let error = Targets::of(&plan(MemoryMode::Bind, "1"), &machine).unwrap_err();
        assert!(error.to_string().starts_with("node 1 has no memory"), "{error}");
        let target = Targets::of(&plan(MemoryMode::Interleave, "all"), &machine).unwrap();
        assert_eq!(target.memory.unwrap().nodes, [NodeId(0), NodeId(2)].into_iter().collect());
        let error = Targets::of(&plan(MemoryMode::Preferred, "0,2"), &machine).unwrap_err();
        assert!(matches!(error, PlaceError::OnePreferred { .. }));
    }
}
