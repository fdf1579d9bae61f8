//! The plan: one value for everything numapilot can set for a program.
//!
//! Source of the four factors: systematic-numa-study, section 3 (allocator, thread
//! placement, memory placement, OS configuration). Nodes and CPUs are kept as the strings
//! the user wrote (`all`, `!0`, `+0`), so that a profile fits every machine it is moved
//! to; they are resolved against the [`numapilot_topology::Machine`] when applied.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a program is started under. [`Plan::default`] changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// The malloc the program gets.
    pub allocator: AllocatorChoice,
    /// How its threads are spread over the CPUs it may use.
    pub threads: ThreadPlacement,
    /// Nodes whose CPUs it may run on (`-N`); all, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_nodes: Option<String>,
    /// CPUs it may run on (`-C`); all, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Transparent huge pages.
    pub thp: Thp,
    /// Automatic NUMA balancing.
    pub numa_balancing: NumaBalancing,
    /// Where its memory comes from.
    pub memory: MemoryPolicy,
    /// More environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// The malloc a program gets: `inherit`, a name the finder knows (`jemalloc`, ...), or
/// the path of a shared library (anything with a `/`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AllocatorChoice {
    /// Whatever the program would use by itself.
    #[default]
    Inherit,
    /// An allocator found by name.
    Named(String),
    /// A shared library.
    Path(String),
}

impl From<String> for AllocatorChoice {
    fn from(text: String) -> Self {
        if text.is_empty() || text == "inherit" {
            Self::Inherit
        } else if text.contains('/') {
            Self::Path(text)
        } else {
            Self::Named(text)
        }
    }
}

impl From<AllocatorChoice> for String {
    fn from(choice: AllocatorChoice) -> Self {
        match choice {
            AllocatorChoice::Inherit => "inherit".to_owned(),
            AllocatorChoice::Named(text) | AllocatorChoice::Path(text) => text,
        }
    }
}

/// How threads are spread (systematic-numa-study 3.2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ThreadPlacement {
    /// The scheduler decides.
    #[default]
    None,
    /// One thread per node in turn: bandwidth and cache of every node.
    Sparse,
    /// A node is filled before the next: threads near each other.
    Dense,
}

/// Transparent huge pages for the program.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Thp {
    /// As the machine is set.
    #[default]
    Inherit,
    /// On, also where the machine says `madvise`.
    Always,
    /// Off for this program.
    Never,
}

/// Automatic NUMA balancing for the program.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum NumaBalancing {
    /// As the machine is set.
    #[default]
    Inherit,
    /// On (machine-wide; needs root).
    On,
    /// Off: for this program by an explicit policy, machine-wide with root.
    Off,
}

/// Where memory comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MemoryPolicy {
    /// The mode.
    pub mode: MemoryMode,
    /// Its nodes, as a nodestring; `all` when empty and the mode needs nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nodes: String,
    /// Lets AutoNUMA move pages inside the nodes of `bind` (`-b`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub balancing: bool,
}

/// Memory policy modes; numactl's option for each in parentheses.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryMode {
    /// As inherited: on most systems first touch.
    #[default]
    Inherit,
    /// The node of the touching CPU, explicitly (`-l`).
    Local,
    /// Pages in turn over the nodes (`-i`).
    Interleave,
    /// In turn, each node by its weight (`-w`).
    WeightedInterleave,
    /// Only these nodes (`-m`).
    Bind,
    /// One preferred node (`-p`).
    Preferred,
    /// Several preferred nodes (`-P`).
    PreferredMany,
}

impl MemoryMode {
    /// Whether the mode takes nodes.
    #[must_use]
    pub fn needs_nodes(self) -> bool {
        !matches!(self, Self::Inherit | Self::Local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_changes_nothing_and_survives_a_round_trip() {
        let text = toml::to_string(&Plan::default()).unwrap();
        assert_eq!(toml::from_str::<Plan>(&text).unwrap(), Plan::default());
        assert_eq!(toml::from_str::<Plan>("").unwrap(), Plan::default());
    }

    #[test]
    fn a_profile_names_what_it_changes() {
        let plan: Plan = toml::from_str(
            "allocator = \"jemalloc\"\nthreads = \"sparse\"\nthp = \"never\"\n\
             [memory]\nmode = \"weighted-interleave\"\nnodes = \"!0\"\n[env]\nA = \"1\"\n",
        )
        .unwrap();
        assert_eq!(plan.allocator, AllocatorChoice::Named("jemalloc".into()));
        assert_eq!(plan.memory.mode, MemoryMode::WeightedInterleave);
        let again: Plan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
        assert_eq!(again, plan);
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        assert!(toml::from_str::<Plan>("alocator = \"jemalloc\"").is_err());
    }
}
