//! The controllers and links of a machine: the time that lines take at each, and how long a line
//! waits there.

use std::fmt;

use numapilot_lab_model::{Model, queue};
use numapilot_topology::routes::Routes;

use super::cache_hits::CacheHits;
use super::load::{Access, LINE_BYTES, Load};

/// What limits the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The memory controller of a node.
    Controller(usize),
    /// The link from a node to another.
    Link(usize, usize),
    /// A thread that runs on a node, which waits for memory or computes.
    Thread(usize),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(node) => write!(f, "controller {node}"),
            Self::Link(from, to) => write!(f, "link {from}>{to}"),
            Self::Thread(node) => write!(f, "latency on {node}"),
        }
    }
}

/// Controllers and links by number: a controller has the number of its node, and links follow after
/// all controllers.
pub struct ControllersAndLinks {
    nodes: usize,
    /// The time that a line takes at each; 0 where there is no link.
    line_ns: Vec<f64>,
    routes: Routes,
}

impl ControllersAndLinks {
    /// The controllers and links of a machine.
    pub fn of_machine(model: &Model) -> Self {
        let nodes = model.nodes();
        let ends: Vec<_> = model.links.iter().map(|l| (l.from, l.to, l.gb_per_s)).collect();
        let mut resources = Self {
            nodes,
            line_ns: vec![0.0; nodes * (nodes + 1)],
            routes: Routes::new(nodes, &ends),
        };
        for (node, gb_per_s) in model.controllers_gb_per_s.iter().enumerate() {
            resources.line_ns[node] = LINE_BYTES / gb_per_s;
        }
        for (a, b, gb_per_s) in ends {
            for link in [resources.link(a, b), resources.link(b, a)] {
                resources.line_ns[link] = LINE_BYTES / gb_per_s;
            }
        }
        resources
    }

    /// One more than the highest number.
    pub fn count(&self) -> usize {
        self.line_ns.len()
    }

    /// The time that a line takes at one of them.
    pub fn line_ns(&self, resource: usize) -> f64 {
        self.line_ns[resource]
    }

    /// The controller or link with this number.
    pub fn bound(&self, resource: usize) -> Bound {
        match resource.checked_sub(self.nodes) {
            None => Bound::Controller(resource),
            Some(link) => Bound::Link(link / self.nodes, link % self.nodes),
        }
    }

    fn link(&self, from: usize, to: usize) -> usize {
        self.nodes + from * self.nodes + to
    }

    /// Adds the seconds that the counted accesses of a load take at each controller and link.
    pub fn add(&self, seconds: &mut [f64], model: &Model, load: &Load, counts: Counts) {
        for access in load.accesses.iter().filter(|access| counts(access)) {
            let found = CacheHits::of_access(model, access);
            let back = found.goes_back(access.usage);
            for (home, lines) in access.lines.iter().enumerate() {
                self.add_lines(seconds, home, (home, load.node), lines * found.nowhere());
                self.add_lines(seconds, home, (load.node, home), lines * back);
            }
        }
    }

    /// Adds lines from the memory of `home` that travel from one node to another.
    fn add_lines(&self, seconds: &mut [f64], home: usize, (from, to): (usize, usize), lines: f64) {
        let mut add = |resource: usize| seconds[resource] += lines * self.line_ns[resource] * 1e-9;
        add(home);
        for hop in self.routes.path(from, to).unwrap_or_default().windows(2) {
            add(self.link(hop[0], hop[1]));
        }
    }

    /// The time that a line waits in queues, by node of the CPU and home node, when each resource
    /// is busy for this share of the time.
    pub fn waits_ns(&self, utilisation: &[f64]) -> Vec<Vec<f64>> {
        let at = |resource: usize| queue::wait(self.line_ns[resource], utilisation[resource]);
        let on_the_way = |home: usize, cpu: usize| -> f64 {
            let path = self.routes.path(home, cpu).unwrap_or_default();
            path.windows(2).map(|hop| at(self.link(hop[0], hop[1]))).sum()
        };
        let to = |cpu| (0..self.nodes).map(|home| at(home) + on_the_way(home, cpu)).collect();
        (0..self.nodes).map(to).collect()
    }
}

/// Whether an access counts.
pub type Counts = fn(&Access) -> bool;
