//! What should be seen in a program that was started under a plan.

use std::fmt;
use std::path::PathBuf;

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_topology::{CpuSet, NodeSet};

use crate::prepare::memory::mode_name;
use crate::{NumaBalancing, Thp};

/// The settings of a prepared command that can be seen in the running program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected(pub(crate) Vec<Item>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
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
pub(crate) struct Policy {
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
