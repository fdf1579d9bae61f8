//! The state that `top` shows. Tests use a recorded one.

use numapilot_observe::{Figures, Metric};
use numapilot_topology::NodeId;

/// A figure, or why it is missing.
pub type Known<T> = Result<T, String>;

/// The whole state.
#[derive(Clone, Debug)]
pub struct State {
    /// The target: `the machine`, `postgres (1234)`.
    pub target: String,
    /// The figures of the last interval.
    pub figures: Figures,
    pub nodes: Vec<Node>,
    /// Pages that were moved between nodes in the interval, machine-wide and for any reason.
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
    /// Name of the mapped file or memory.
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
    /// A figure, or why it is missing.
    pub fn figure(&self, metric: Metric) -> Known<f64> {
        self.figures.get(&metric).cloned().unwrap_or_else(|| Err("not observed".to_owned()))
    }

    /// The rate of a counted event per second.
    pub fn rate(&self, metric: Metric) -> Known<f64> {
        Ok(self.figure(metric)? / self.seconds())
    }

    /// Length of the interval on the clock of accesses, which is simulated on an emulated machine.
    pub fn accessed_seconds(&self) -> f64 {
        let simulated = self.figure(Metric::SimulatedSeconds).ok();
        simulated.filter(|seconds| *seconds > 0.0).unwrap_or_else(|| self.seconds())
    }

    /// Length of the interval.
    pub fn seconds(&self) -> f64 {
        self.figure(Metric::Seconds).ok().filter(|seconds| *seconds > 0.0).unwrap_or(1.0)
    }
}
