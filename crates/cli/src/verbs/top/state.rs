//! What `top` knows at a moment; a test has it recorded.

use numapilot_observe::{Figures, Metric};
use numapilot_topology::NodeId;

/// A figure, or why there is none.
pub type Known<T> = Result<T, String>;

/// All of it.
#[derive(Clone, Debug)]
pub struct State {
    /// What is looked at: `the machine`, `postgres (1234)`.
    pub target: String,
    /// What was observed in the last interval.
    pub figures: Figures,
    pub nodes: Vec<Node>,
    /// Pages that were moved from node to node in the interval, machine-wide, by whomever.
    pub moved_pages: Known<f64>,
    /// DRAM accesses in the interval, by node of the CPU and node of the memory.
    pub traffic: Known<Vec<Vec<u64>>>,
    pub links: Known<Vec<Link>>,
    pub regions: Known<Vec<Region>>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    pub cpus: usize,
    pub memory_bytes: u64,
    pub used_bytes: Option<u64>,
    /// Memory of the target.
    pub target_bytes: Option<u64>,
    /// Pages that were allocated here in the interval by CPUs of this node, and by others.
    pub allocated_local: u64,
    pub allocated_remote: u64,
}

/// A link between nodes.
#[derive(Clone, Debug)]
pub struct Link {
    pub between: String,
    /// The share of its bandwidth in use.
    pub usage: f64,
}

/// A mapping of the target that was sampled.
#[derive(Clone, Debug)]
pub struct Region {
    pub start: u64,
    pub bytes: u64,
    /// What is mapped.
    pub name: String,
    /// Samples, by the node of the CPU that made the access; older ones count less.
    pub samples: Vec<(NodeId, f64)>,
}

impl Region {
    pub fn total(&self) -> f64 {
        self.samples.iter().map(|(_, samples)| samples).sum()
    }
}

impl State {
    /// A figure, or why there is none.
    pub fn figure(&self, metric: Metric) -> Known<f64> {
        self.figures.get(&metric).cloned().unwrap_or_else(|| Err("not observed".to_owned()))
    }

    /// How often something that is counted happened in a second.
    pub fn rate(&self, metric: Metric) -> Known<f64> {
        Ok(self.figure(metric)? / self.seconds())
    }

    /// Length of the interval on the clock of accesses: on an emulated machine that is simulated.
    pub fn accessed_seconds(&self) -> f64 {
        let simulated = self.figure(Metric::SimulatedSeconds).ok();
        simulated.filter(|seconds| *seconds > 0.0).unwrap_or_else(|| self.seconds())
    }

    /// Length of the interval.
    pub fn seconds(&self) -> f64 {
        self.figure(Metric::Seconds).ok().filter(|seconds| *seconds > 0.0).unwrap_or(1.0)
    }
}
