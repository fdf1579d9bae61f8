//! What should be seen in a program that was started under a plan.

use std::fmt;
use std::path::PathBuf;

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_topology::{CpuSet, NodeSet};

use crate::allocators::Found;
use crate::prepare::memory::mode_name;
use crate::{NumaBalancing, Plan, Prepared, Thp};

/// The settings of a prepared command that can be seen in the running program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected(pub(super) Vec<Item>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A memory policy.
    Memory(Policy),
    /// CPUs that all threads keep to.
    Cpus(CpuSet),
    /// CPUs over which the threads are spread.
    Threads(CpuSet),
    /// A preloaded malloc.
    Allocator {
        /// Its name.
        name: String,
        /// The library.
        path: PathBuf,
    },
    /// Transparent huge pages, on or off.
    Thp(Thp),
    /// AutoNUMA, on or off.
    NumaBalancing(NumaBalancing),
    /// AutoNUMA inside the nodes of the policy.
    Balancing,
}

/// A policy as `numa_maps` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub mode: Mode,
    pub flags: i32,
    pub nodes: NodeSet,
}

impl Policy {
    /// `bind=balancing:0-1`, as `mpol_to_str` in mm/mempolicy.c writes it.
    pub fn text(&self) -> String {
        let mut text = match self.mode {
            Mode::Default => "default",
            Mode::Preferred => "prefer",
            Mode::Bind => "bind",
            Mode::Interleave => "interleave",
            Mode::Local => "local",
            Mode::PreferredMany => "prefer (many)",
            Mode::WeightedInterleave => "weighted interleave",
        }
        .to_owned();
        if self.flags & mempolicy::F_NUMA_BALANCING != 0 {
            text.push_str("=balancing");
        }
        if !self.nodes.is_empty() {
            text.push_str(&format!(":{}", self.nodes));
        }
        text
    }
}

impl Expected {
    /// What `prepared` does of `plan`. `allocator` is a library that was preloaded and that
    /// nothing is known to keep out.
    pub(crate) fn new(plan: &Plan, prepared: &Prepared, allocator: Option<&Found>) -> Self {
        let mut items = Vec::new();
        let noted = |subject: &str| prepared.notes.iter().any(|note| note.subject == subject);
        if let Some((mode, flags, nodes)) = &prepared.steps.memory {
            let nodes = NodeSet::from_words(nodes);
            items.push(Item::Memory(Policy { mode: *mode, flags: *flags, nodes }));
        }
        if let Some(cpus) = &prepared.steps.cpus {
            items.push(Item::Cpus(CpuSet::from_words(cpus)));
        }
        if let Some(placement) = &prepared.placement {
            items.push(Item::Threads(placement.order().iter().copied().collect()));
        }
        if let Some(found) = allocator {
            items.push(Item::Allocator { name: found.to_string(), path: found.path.clone() });
        }
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
        Self(items)
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As the user knows it.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(policy) => {
                write!(f, "memory {}", mode_name(policy.mode))?;
                if policy.nodes.is_empty() { Ok(()) } else { write!(f, " {}", policy.nodes) }
            }
            Self::Cpus(cpus) => write!(f, "CPUs {cpus}"),
            Self::Threads(_) => f.write_str("threads"),
            Self::Allocator { name, .. } => write!(f, "allocator {name}"),
            Self::Thp(thp) => write!(f, "thp {}", thp.name()),
            Self::NumaBalancing(balancing) => write!(f, "numa-balancing {}", balancing.name()),
            Self::Balancing => f.write_str("memory balancing"),
        }
    }
}
