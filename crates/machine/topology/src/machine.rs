//! The [`Machine`] type, which holds what the kernel shows, what a description states and what was
//! measured.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{CpuId, CpuSet, NodeId, NodeSet};

/// A machine.
///
/// Matrices are indexed by position in [`Machine::nodes`], not by node id, because node
/// numbering may have holes; [`Machine::node_index`] translates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Short name: the host's, or the description's file stem.
    pub name: String,
    /// Processor model as the kernel or the description names it.
    pub processor: Option<String>,
    /// Nodes in ascending order of id; at least one.
    pub nodes: Vec<Node>,
    /// CPUs in ascending order of id, offline ones included.
    pub cpus: Vec<Cpu>,
    /// Every cache once, smallest level first.
    pub caches: Vec<Cache>,
    /// SLIT distances, 10 = local; row = from node, column = to node.
    pub distances: Vec<Vec<u32>>,
    /// Physical links between nodes, where a description gives them.
    pub links: Vec<Link>,
    /// Latency and bandwidth between nodes, from the firmware, a description or a
    /// measurement.
    pub figures: Figures,
    /// What this process may use; everything on a machine from a description.
    pub allowed: Allowed,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Kernel id.
    pub id: NodeId,
    /// Online CPUs; empty for a memory-only node.
    pub cpus: CpuSet,
    /// Installed memory; 0 for a CPU-only node.
    pub memory_bytes: u64,
    /// Free memory when the machine was read.
    pub free_bytes: Option<u64>,
    /// Huge page pools, by page size.
    pub huge_pages: Vec<HugePages>,
    /// Memory tier (`memory_tierN`): the lower, the faster.
    pub tier: Option<u32>,
}

/// One pool of preallocated huge pages on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Size of a page.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total: u64,
    /// Pages of the pool that are free.
    pub free: u64,
}

/// A logical CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Kernel id.
    pub id: CpuId,
    /// Node it belongs to; `None` when offline and the kernel does not say.
    pub node: Option<NodeId>,
    /// Whether the kernel uses it.
    pub online: bool,
    /// Core number within its package.
    pub core: Option<u32>,
    /// Package (socket) number.
    pub package: Option<u32>,
    /// CPUs of the same core, itself included (SMT siblings).
    pub siblings: CpuSet,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Data and instructions.
    Unified,
}

/// A cache and the CPUs that share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3, ...
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Capacity; `None` when the kernel does not say (many Arm machines).
    pub size_bytes: Option<u64>,
    /// Associativity; `None` when the kernel does not say.
    pub ways: Option<u32>,
    /// Line size; `None` when the kernel does not say.
    pub line_bytes: Option<u32>,
    /// CPUs that share it.
    pub cpus: CpuSet,
}

/// A physical link between two nodes. Both directions have the same bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// One end.
    pub from: NodeId,
    /// The other end.
    pub to: NodeId,
    /// Bandwidth of one direction.
    pub gb_per_s: f64,
}

/// Latency and bandwidth of node `[row]`'s CPUs to node `[column]`'s memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Where the figures are from: `"HMAT"`, `"measured"`, or a description's source.
    pub source: Option<String>,
    /// Load-to-use latency of an idle machine; `None` where unknown (a memory-only node
    /// has no CPU to measure from).
    pub latency_ns: Vec<Vec<Option<f64>>>,
    /// Read bandwidth, in 10^9 bytes per second.
    pub bandwidth_gb_per_s: Vec<Vec<Option<f64>>>,
}

/// What a process may use (cpuset, affinity, `Mems_allowed`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// CPUs it may run on.
    pub cpus: CpuSet,
    /// Nodes it may allocate on.
    pub nodes: NodeSet,
}

impl Machine {
    /// Position of a node in [`Machine::nodes`] and in every matrix.
    #[must_use]
    pub fn node_index(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |n| n.id).ok()
    }

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.node_index(id).map(|i| &self.nodes[i])
    }

    /// The CPU with this id.
    #[must_use]
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |c| c.id).ok().map(|i| &self.cpus[i])
    }

    /// Ids of all nodes.
    #[must_use]
    pub fn node_ids(&self) -> NodeSet {
        self.nodes.iter().map(|n| n.id).collect()
    }

    /// Nodes that have memory.
    #[must_use]
    pub fn memory_nodes(&self) -> NodeSet {
        self.nodes.iter().filter(|n| n.memory_bytes > 0).map(|n| n.id).collect()
    }

    /// Nodes that have at least one online CPU.
    #[must_use]
    pub fn cpu_nodes(&self) -> NodeSet {
        self.nodes.iter().filter(|n| !n.cpus.is_empty()).map(|n| n.id).collect()
    }

    /// All online CPUs.
    #[must_use]
    pub fn online_cpus(&self) -> CpuSet {
        self.cpus.iter().filter(|c| c.online).map(|c| c.id).collect()
    }

    /// Online CPUs of these nodes.
    #[must_use]
    pub fn cpus_of(&self, nodes: &NodeSet) -> CpuSet {
        self.nodes
            .iter()
            .filter(|n| nodes.contains(n.id))
            .fold(CpuSet::new(), |set, n| set.union(&n.cpus))
    }

    /// Number of cores these CPUs belong to.
    #[must_use]
    pub fn cores(&self, cpus: &CpuSet) -> usize {
        // Count a core at the first of its siblings that is in the set.
        let first = |cpu: &Cpu| cpu.siblings.intersection(cpus).first() == Some(cpu.id);
        cpus.iter().filter_map(|id| self.cpu(id)).filter(|cpu| first(cpu)).count()
    }

    /// Number of packages these CPUs belong to; 0 where the kernel names none.
    #[must_use]
    pub fn packages(&self, cpus: &CpuSet) -> usize {
        let packages = cpus.iter().filter_map(|id| self.cpu(id)?.package);
        packages.collect::<BTreeSet<u32>>().len()
    }

    /// SLIT distance, 10 = local; `None` for an unknown node.
    #[must_use]
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u32> {
        self.distances.get(self.node_index(from)?)?.get(self.node_index(to)?).copied()
    }

    /// Latency from `from`'s CPUs to `to`'s memory, if it is known.
    #[must_use]
    pub fn latency_ns(&self, from: NodeId, to: NodeId) -> Option<f64> {
        let row = self.figures.latency_ns.get(self.node_index(from)?)?;
        row.get(self.node_index(to)?).copied().flatten()
    }

    /// A plain machine for tests and examples: `nodes` nodes of 1 GiB with consecutive
    /// CPUs, one thread per core, distance 20 between any two.
    #[must_use]
    pub fn uniform(nodes: u32, cpus_per_node: u32) -> Self {
        let cpus: Vec<Cpu> = (0..nodes * cpus_per_node)
            .map(|i| Cpu {
                id: CpuId(i),
                node: Some(NodeId(i / cpus_per_node)),
                online: true,
                core: Some(i % cpus_per_node),
                package: Some(i / cpus_per_node),
                siblings: [CpuId(i)].into_iter().collect(),
            })
            .collect();
        let ids = || (0..nodes).map(NodeId);
        Self {
            name: format!("uniform-{nodes}x{cpus_per_node}"),
            processor: None,
            nodes: ids()
                .map(|id| Node {
                    id,
                    cpus: cpus.iter().filter(|c| c.node == Some(id)).map(|c| c.id).collect(),
                    memory_bytes: 1 << 30,
                    ..Node::default()
                })
                .collect(),
            caches: Vec::new(),
            distances: ids()
                .map(|a| ids().map(|b| if a == b { 10 } else { 20 }).collect())
                .collect(),
            links: Vec::new(),
            figures: Figures::default(),
            allowed: Allowed { cpus: cpus.iter().map(|c| c.id).collect(), nodes: ids().collect() },
            cpus,
        }
    }
}
