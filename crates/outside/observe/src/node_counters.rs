//! The kernel's counters per node and for the whole machine: allocations on the requested node, and
//! the work of AutoNUMA.
//!
//! Source: Documentation/admin-guide/numastat.rst, `/proc/vmstat`. These counters are machine-wide,
//! so a difference over a run includes all other programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use numapilot_topology::{NodeId, NodeSet};
use serde::Serialize;

use crate::metric::{Figures, Metric};

/// Allocation counters of one node, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NumaStat {
    /// Allocated on this node, as requested.
    pub numa_hit: u64,
    /// Allocated on this node because the requested node was full.
    pub numa_miss: u64,
    /// Requested on this node, but allocated on another one.
    pub numa_foreign: u64,
    /// Interleaved, and allocated on this node in its turn.
    pub interleave_hit: u64,
    /// Allocated on this node by one of its CPUs.
    pub local_node: u64,
    /// Allocated on this node by a CPU of another node.
    pub other_node: u64,
}

impl NumaStat {
    /// Parses the `numastat` file of a node. Unknown lines are skipped, and missing ones are 0.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut stat = Self::default();
        for (name, value) in pairs(text) {
            let field = match name {
                "numa_hit" => &mut stat.numa_hit,
                "numa_miss" => &mut stat.numa_miss,
                "numa_foreign" => &mut stat.numa_foreign,
                "interleave_hit" => &mut stat.interleave_hit,
                "local_node" => &mut stat.local_node,
                "other_node" => &mut stat.other_node,
                _ => continue,
            };
            *field = value;
        }
        stat
    }

    /// The counts since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            numa_hit: self.numa_hit.saturating_sub(earlier.numa_hit),
            numa_miss: self.numa_miss.saturating_sub(earlier.numa_miss),
            numa_foreign: self.numa_foreign.saturating_sub(earlier.numa_foreign),
            interleave_hit: self.interleave_hit.saturating_sub(earlier.interleave_hit),
            local_node: self.local_node.saturating_sub(earlier.local_node),
            other_node: self.other_node.saturating_sub(earlier.other_node),
        }
    }
}

/// Reads the counters of these nodes below `/sys` of `root`. A node without a file (offline, or on
/// a kernel without NUMA) is left out.
#[must_use]
pub fn numastat(root: &Path, nodes: &NodeSet) -> BTreeMap<NodeId, NumaStat> {
    let read = |node: NodeId| {
        let path = root.join(format!("sys/devices/system/node/node{node}/numastat"));
        Some((node, NumaStat::parse(&fs::read_to_string(path).ok()?)))
    };
    nodes.iter().filter_map(read).collect()
}

/// Used memory of these nodes, in bytes.
#[must_use]
pub fn used_bytes(root: &Path, nodes: &NodeSet) -> BTreeMap<NodeId, u64> {
    let read = |node: NodeId| {
        let path = root.join(format!("sys/devices/system/node/node{node}/meminfo"));
        Some((node, parse_used(&fs::read_to_string(path).ok()?)?))
    };
    nodes.iter().filter_map(read).collect()
}

/// `Node 0 MemUsed:        1234 kB`
fn parse_used(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.split_once("MemUsed:"))?.1;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// AutoNUMA's counters in `/proc/vmstat`.
const VMSTAT: [(&str, Metric); 4] = [
    ("numa_pte_updates", Metric::NumaPteUpdates),
    ("numa_hint_faults", Metric::NumaHintFaults),
    ("numa_hint_faults_local", Metric::NumaHintFaultsLocal),
    ("numa_pages_migrated", Metric::NumaPagesMigrated),
];

/// AutoNUMA's counters, each with its value or the reason why there is none.
#[must_use]
pub fn auto_numa(root: &Path) -> Figures {
    let text = fs::read_to_string(root.join("proc/vmstat"));
    let figure = |name: &str| match &text {
        Ok(text) => pairs(text).find(|(n, _)| *n == name).map(|(_, v)| v as f64).ok_or_else(|| {
            "this kernel is built without automatic NUMA balancing (CONFIG_NUMA_BALANCING)"
                .to_owned()
        }),
        Err(e) => Err(format!("/proc/vmstat cannot be read: {e}")),
    };
    VMSTAT.iter().map(|(name, metric)| (*metric, figure(name))).collect()
}

/// The names and values of `/proc/vmstat`.
pub fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    const NUMASTAT: &str = "numa_hit 14767378\nnuma_miss 0\nnuma_foreign 0\n\
                            interleave_hit 1187\nlocal_node 14767378\nother_node 0\n";

    #[test]
    fn a_recorded_node() {
        let stat = NumaStat::parse(NUMASTAT);
        assert_eq!((stat.numa_hit, stat.interleave_hit), (14_767_378, 1187));
        assert_eq!(stat.since(stat), NumaStat::default());
        assert_eq!(NumaStat::default().since(stat), NumaStat::default());
    }

    #[test]
    fn used_memory_of_a_node() {
        assert_eq!(parse_used("Node 0 MemTotal: 9 kB\nNode 0 MemUsed:   8 kB\n"), Some(8192));
        assert_eq!(parse_used("Node 0 MemUsed: 99999999999999999999 kB"), None);
        assert_eq!(parse_used(""), None);
    }

    #[test]
    fn a_kernel_without_balancing_says_so() {
        let root = Path::new("/nonexistent");
        assert!(auto_numa(root).values().all(|v| v.as_ref().is_err_and(|e| e.contains("vmstat"))));
        assert!(numastat(root, &NodeSet::new()).is_empty());
    }

    proptest! {
        #[test]
        fn damaged_counters_are_read(text in damaged(NUMASTAT)) {
            let stat = NumaStat::parse(&text);
            prop_assert_eq!(stat.since(stat), NumaStat::default());
        }

        #[test]
        fn damaged_memory_is_read_or_refused(text in damaged(
            "Node 0 MemTotal: 9 kB\nNode 0 MemFree: 1 kB\nNode 0 MemUsed:   8 kB\n",
        )) {
            prop_assert_eq!(parse_used(&text).unwrap_or(0) % 1024, 0);
        }
    }
}
