//! The settings of a plan that should be visible in the program.

use std::fmt;
use std::path::PathBuf;

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_topology::{CpuSet, NodeSet};

use crate::prepare::memory::{FLAGS, mode_name};
use crate::{NumaBalancing, Thp};

/// The settings of a prepared command that are visible in the running program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected(pub(crate) Vec<Item>);

/// One of these settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A memory policy.
    Memory(Policy),
    /// CPUs to which all threads are restricted.
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
    /// The C library's own malloc.
    Glibc,
    /// Transparent huge pages, on or off.
    Thp(Thp),
    /// AutoNUMA, on or off.
    NumaBalancing(NumaBalancing),
    /// AutoNUMA inside the nodes of the policy.
    Balancing,
}

/// A policy in the format of `numa_maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub mode: Mode,
    pub flags: i32,
    pub nodes: NodeSet,
}

impl Policy {
    /// The policy of a step between fork and exec.
    pub fn of_step(mode: Mode, flags: i32, nodes: &[u64]) -> Self {
        Self { mode, flags, nodes: NodeSet::from_words(nodes) }
    }

    /// What get_mempolicy(2) returns; `None` for a mode that is not known here.
    pub fn of_raw(raw: i32, nodes: &[u64]) -> Option<Self> {
        let nodes = NodeSet::from_words(nodes);
        let mode = match Mode::from_raw(raw & !FLAGS)? {
            // Linux before 5.12 has no mode of its own for it.
            Mode::Preferred if nodes.is_empty() => Mode::Local,
            mode => mode,
        };
        Some(Self { mode, flags: raw & FLAGS, nodes })
    }

    /// `bind=balancing:0-1`, in the format of `mpol_to_str` in mm/mempolicy.c.
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
    /// Whether there are no settings to check.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes the user's name of the setting.
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
            Self::Glibc => f.write_str("allocator glibc"),
            Self::Thp(thp) => write!(f, "thp {}", thp.name()),
            Self::NumaBalancing(balancing) => write!(f, "numa-balancing {}", balancing.name()),
            Self::Balancing => f.write_str("memory balancing"),
        }
    }
}
