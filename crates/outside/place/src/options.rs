//! A plan as options of `numapilot run`, for a command line that must hold the whole plan.

use crate::{AllocatorChoice, Daemons, MemoryMode, NumaBalancing, Plan, Thp, ThreadPlacement};

impl Plan {
    /// The options that make this plan. Nodes and CPUs stay as the user wrote them, so they are
    /// resolved where the program runs.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        if self.allocator != AllocatorChoice::Inherit {
            options.push(format!("--allocator={}", String::from(self.allocator.clone())));
        }
        if self.threads != ThreadPlacement::None {
            options.push(format!("--threads={}", self.threads.name()));
        }
        options.extend(self.cpu_nodes.as_ref().map(|nodes| format!("--cpunodebind={nodes}")));
        options.extend(self.cpus.as_ref().map(|cpus| format!("--physcpubind={cpus}")));
        if self.thp != Thp::Inherit {
            options.push(format!("--thp={}", self.thp.name()));
        }
        if self.numa_balancing != NumaBalancing::Inherit {
            options.push(format!("--numa-balancing={}", self.numa_balancing.name()));
        }
        if self.daemons != Daemons::None {
            options.push(format!("--daemons={}", self.daemons.name()));
        }
        let nodes = if self.memory.nodes.is_empty() { "all" } else { &self.memory.nodes };
        options.extend(match self.memory.mode {
            MemoryMode::Inherit => None,
            MemoryMode::Local => Some("--localalloc".to_owned()),
            MemoryMode::Interleave => Some(format!("--interleave={nodes}")),
            MemoryMode::WeightedInterleave => Some(format!("--weighted-interleave={nodes}")),
            MemoryMode::Bind => Some(format!("--membind={nodes}")),
            MemoryMode::Preferred => Some(format!("--preferred={nodes}")),
            MemoryMode::PreferredMany => Some(format!("--preferred-many={nodes}")),
        });
        options.extend(self.memory.balancing.then(|| "--balancing".to_owned()));
        options.extend(self.env.iter().map(|(name, value)| format!("--env={name}={value}")));
        options
    }
}
