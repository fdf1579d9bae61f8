//! The plan: all settings that numapilot can make for a program.
//!
//! Source of the four factors: systematic-numa-study, section 3 (allocator, thread placement,
//! memory placement, OS configuration). Nodes and CPUs are stored as the user's strings (`all`,
//! `!0`, `+0`), so a profile is valid on other machines too. They are resolved against the
//! [`numapilot_topology::Machine`] when the plan is applied.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The variable that names the plan of a program in its environment.
pub const NAME_VARIABLE: &str = "NUMAPILOT_PLAN";

/// The settings with which a program is started. [`Plan::default`] changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// The program's malloc.
    pub allocator: AllocatorChoice,
    /// The placement of its threads on the CPUs that it may use.
    pub threads: ThreadPlacement,
    /// Nodes on whose CPUs it may run (`-N`). All nodes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_nodes: Option<String>,
    /// CPUs on which it may run (`-C`). All CPUs if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Transparent huge pages.
    pub thp: Thp,
    /// Automatic NUMA balancing.
    pub numa_balancing: NumaBalancing,
    /// Daemons that run beside it.
    pub daemons: Daemons,
    /// The policy for its memory.
    #[serde(deserialize_with = "memory")]
    pub memory: MemoryPolicy,
    /// Further environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// The malloc of a program: `inherit`, a known name (`jemalloc`, ...), or the path of a shared
/// library (anything with a `/`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AllocatorChoice {
    /// The malloc that the program uses by itself.
    #[default]
    Inherit,
    /// An allocator found by name.
    Named(String),
    /// A shared library.
    Path(String),
}

impl From<String> for AllocatorChoice {
    fn from(text: String) -> Self {
        if text == "inherit" {
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

/// The placement of threads (systematic-numa-study 3.2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ThreadPlacement {
    /// The scheduler decides.
    #[default]
    None,
    /// One thread per node in turn, for the bandwidth and caches of all nodes.
    Sparse,
    /// One node after the other, which keeps threads close to each other.
    Dense,
}

/// Transparent huge pages for the program.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Thp {
    /// The machine's setting.
    #[default]
    Inherit,
    /// On, also on a machine set to `madvise`.
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
    /// The machine's setting.
    #[default]
    Inherit,
    /// On (machine-wide; needs root).
    On,
    /// Off: for this program by an explicit policy, machine-wide with root.
    Off,
}

/// numapilot's daemons that run beside the program, for as long as it runs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Daemons {
    /// None.
    #[default]
    None,
    /// `numapilot balance`.
    Balance,
    /// `numapilot cores`.
    Cores,
    /// Both.
    #[serde(rename = "balance+cores")]
    BalanceAndCores,
}

impl Daemons {
    /// The verbs of numapilot.
    #[must_use]
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Balance => &["balance"],
            Self::Cores => &["cores"],
            Self::BalanceAndCores => &["balance", "cores"],
        }
    }
}

/// The memory policy of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MemoryPolicy {
    /// The mode.
    pub mode: MemoryMode,
    /// Its nodes, as a nodestring. If empty and the mode needs nodes, all nodes.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nodes")]
    pub nodes: String,
    /// Lets AutoNUMA move pages inside the nodes of `bind` (`-b`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub balancing: bool,
}

/// Refuses nodes of a mode that takes none: they would have no effect.
fn memory<'de, D: Deserializer<'de>>(value: D) -> Result<MemoryPolicy, D::Error> {
    let policy = MemoryPolicy::deserialize(value)?;
    if policy.nodes.is_empty() || policy.mode.needs_nodes() {
        return Ok(policy);
    }
    Err(D::Error::custom(format!(
        "memory mode `{}` takes no nodes; leave `nodes` out, or name a mode that takes them, as \
         `mode = \"bind\"`",
        policy.mode.name()
    )))
}

/// Refuses an empty text, which would mean all nodes.
fn nodes<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    let nodes = String::deserialize(value)?;
    if nodes.is_empty() {
        return Err(D::Error::custom("`nodes` is empty; leave it out, or write \"all\""));
    }
    Ok(nodes)
}

/// Memory policy modes; numactl's option for each in parentheses.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryMode {
    /// The inherited policy, which is first touch on most systems.
    #[default]
    Inherit,
    /// The node of the CPU that touches the page, as an explicit policy (`-l`).
    Local,
    /// Pages from the nodes in turn (`-i`).
    Interleave,
    /// Pages from the nodes in turn, by weight (`-w`).
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

/// Defines the names of an enum in profiles and options, each with its meaning in a few words.
macro_rules! names {
    ($type:ident: $($variant:ident = $name:literal, $meaning:literal;)+) => {
        impl $type {
            /// Every choice, in the order in which they are listed to the user.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in profiles and options.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            /// Its meaning, in words that can follow the name in parentheses.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning),+
                }
            }

            /// The choice with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|choice| choice.name() == name)
            }
        }
    };
}

names!(
    ThreadPlacement:
    None = "none", "the scheduler decides";
    Sparse = "sparse", "one per node in turn: bandwidth and caches of all nodes";
    Dense = "dense", "a node is filled before the next: near each other";
);
names!(
    Thp:
    Inherit = "inherit", "as the machine is set";
    Always = "always", "wherever they fit";
    Never = "never", "none for this program";
);
names!(
    NumaBalancing:
    Inherit = "inherit", "as the machine is set";
    On = "on", "machine-wide, needs root";
    Off = "off", "for this program, by an explicit policy";
);
names!(
    Daemons:
    None = "none", "numapilot does nothing while it runs";
    Balance = "balance", "keeps pages on the nodes that use them";
    Cores = "cores", "as many cores as its load needs";
    BalanceAndCores = "balance+cores", "both";
);
names!(
    MemoryMode:
    Inherit = "inherit", "as the parent's policy";
    Local = "local", "node of the touching CPU";
    Interleave = "interleave", "in turn";
    WeightedInterleave = "weighted-interleave", "in turn, by the kernel's weights";
    Bind = "bind", "only these nodes";
    Preferred = "preferred", "one node first";
    PreferredMany = "preferred-many", "these nodes first";
);

/// Writes one line for the user: `jemalloc, interleave all, thp never`, or `default` for a plan
/// that changes nothing.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.allocator != AllocatorChoice::Inherit {
            parts.push(self.allocator.to_string());
        }
        if self.threads != ThreadPlacement::None {
            parts.push(self.threads.name().to_owned());
        }
        parts.extend(self.cpu_nodes.as_ref().map(|nodes| format!("CPUs of node {nodes}")));
        parts.extend(self.cpus.as_ref().map(|cpus| format!("CPUs {cpus}")));
        if self.memory.mode != MemoryMode::Inherit || self.memory.balancing {
            parts.push(self.memory.to_string());
        }
        if self.thp != Thp::Inherit {
            parts.push(format!("thp {}", self.thp.name()));
        }
        if self.numa_balancing != NumaBalancing::Inherit {
            parts.push(format!("AutoNUMA {}", self.numa_balancing.name()));
        }
        if self.daemons != Daemons::None {
            parts.push(self.daemons.name().to_owned());
        }
        parts.extend(self.env.iter().map(|(name, value)| format!("{name}={value}")));
        if parts.is_empty() {
            parts.push("default".to_owned());
        }
        f.write_str(&parts.join(", "))
    }
}

/// Writes `interleave all` or `bind 0-1 balancing`.
impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.name())?;
        if self.mode.needs_nodes() {
            let nodes = if self.nodes.is_empty() { "all" } else { &self.nodes };
            write!(f, " {nodes}")?;
        }
        if self.balancing {
            f.write_str(" balancing")?;
        }
        Ok(())
    }
}

/// Writes the name, or the file name of a library.
impl fmt::Display for AllocatorChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inherit => "inherit",
            Self::Named(name) => name,
            Self::Path(path) => path.rsplit('/').next().unwrap_or(path),
        })
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
    fn a_plan_is_one_line() {
        assert_eq!(Plan::default().to_string(), "default");
        let plan = Plan {
            allocator: AllocatorChoice::Path("/opt/lib/libhoard.so".into()),
            threads: ThreadPlacement::Sparse,
            cpu_nodes: Some("0".into()),
            thp: Thp::Never,
            numa_balancing: NumaBalancing::Off,
            daemons: Daemons::BalanceAndCores,
            memory: MemoryPolicy { mode: MemoryMode::Bind, balancing: true, ..Default::default() },
            env: [("A".to_owned(), "1".to_owned())].into(),
            ..Plan::default()
        };
        assert_eq!(
            plan.to_string(),
            "libhoard.so, sparse, CPUs of node 0, bind all balancing, thp never, AutoNUMA off, \
             balance+cores, A=1"
        );
    }

    #[test]
    fn names_are_those_of_the_profile() {
        fn check<T: Serialize + Copy>(all: &[T], name: fn(T) -> &'static str) {
            for choice in all {
                let text = toml::Value::try_from(choice).unwrap();
                assert_eq!(text.as_str(), Some(name(*choice)));
            }
        }
        check(ThreadPlacement::ALL, ThreadPlacement::name);
        check(Thp::ALL, Thp::name);
        check(NumaBalancing::ALL, NumaBalancing::name);
        check(Daemons::ALL, Daemons::name);
        check(MemoryMode::ALL, MemoryMode::name);
        assert_eq!(Thp::from_name("never"), Some(Thp::Never));
        assert_eq!(Thp::from_name("Never"), None);
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        assert!(toml::from_str::<Plan>("alocator = \"jemalloc\"").is_err());
    }
}
