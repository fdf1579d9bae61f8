//! Describes a prepared command.

use std::fs;
use std::path::Path;

use numapilot_sys::mempolicy::Mode;
use numapilot_sys::prctl::ThpSwitch;
use numapilot_topology::{CpuSet, NodeId, NodeSet};

use crate::Prepared;
use crate::prepare::memory::mode_name;

/// The directory of the weights of weighted interleave (Linux 6.9 and newer;
/// Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave).
const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

impl Prepared {
    /// One line for each setting.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(cpus) = &self.steps.cpus {
            lines.push(format!("CPUs: {}", CpuSet::from_words(cpus)));
        }
        if let Some((mode, flags, nodes)) = &self.steps.memory {
            let nodes = NodeSet::from_words(nodes);
            let mut line = format!("memory: {}", mode_name(*mode));
            if *mode == Mode::WeightedInterleave {
                let weights: Vec<String> = nodes
                    .iter()
                    .map(|node| format!("node {node} weight {}", weight(node)))
                    .collect();
                line.push_str(&format!(" ({})", weights.join(", ")));
            } else if !nodes.is_empty() {
                line.push_str(&format!(" node {nodes}"));
            }
            if *flags != 0 {
                line.push_str(", sampled by AutoNUMA");
            }
            lines.push(line);
        }
        if let Some(switch) = self.steps.thp {
            let never = switch == ThpSwitch::Disabled;
            lines.push(format!("huge pages: {}", if never { "never" } else { "allowed again" }));
        }
        if let Some(placement) = &self.placement {
            let order: Vec<String> = placement.order().iter().map(ToString::to_string).collect();
            lines.push(format!("threads: CPUs in the order {}", order.join(",")));
        }
        lines.extend(
            self.daemons.iter().flat_map(|d| d.commands()).map(|c| format!("beside it: {c}")),
        );
        for (name, value) in self.environment.changes() {
            lines.push(format!("environment: {}={}", name.display(), value.display()));
        }
        for change in &self.settings {
            lines.push(format!(
                "machine-wide until it ends: {} > {}",
                change.value,
                change.setting.path(Path::new("/")).display()
            ));
        }
        lines
    }
}

fn weight(node: NodeId) -> String {
    fs::read_to_string(format!("{WEIGHTS}/node{node}"))
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
