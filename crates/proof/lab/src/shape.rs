//! The emulated part of a machine description: nodes with their CPUs and memory, scaled down as its
//! `[lab]` table says.

use std::ops::Range;

use numapilot_lab_model::{CpuPlace, Layout, MemoryRange};
use numapilot_topology::description::{Description, DescriptionError};

use crate::LabError;

/// QEMU's limit (`MAX_NODES`).
const MAX_NODES: usize = 128;
/// The largest number of CPUs of a shape: APIC IDs of eight bits address no more. The timing model
/// has a lower limit of its own (`Model::from_description`).
const MAX_CPUS: u32 = 255;

/// The machine that the guest sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Short name.
    pub name: String,
    /// Nodes 0, 1, 2, ...
    pub nodes: Vec<GuestNode>,
    /// Nodes with CPUs per package.
    pub nodes_per_package: u32,
    /// CPUs of each node that has any.
    pub cpus_per_node: u32,
    /// SLIT distances.
    pub distances: Vec<Vec<u32>>,
    /// Latency from the CPUs of a node to the memory of another.
    pub latency_ns: Vec<Vec<Option<f64>>>,
    /// Bandwidth from the CPUs of a node to the memory of another, in 10^9 bytes per second.
    pub bandwidth_gb_per_s: Vec<Vec<Option<f64>>>,
    /// The divisor of cache capacities, and of the data that programs should have.
    pub cache_scale: u32,
}

/// A node of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestNode {
    /// The node's CPUs; none for a memory-only node.
    pub cpus: Range<u32>,
    /// The node's memory.
    pub memory_bytes: u64,
}

impl Shape {
    /// Scales a described machine down.
    ///
    /// # Errors
    /// [`LabError`] for a description that is inconsistent, has no `[lab]` table, or exceeds QEMU's
    /// limits.
    pub fn new(name: &str, description: &Description) -> Result<Self, LabError> {
        let machine =
            description.machine(name).map_err(|error| LabError::description(name, error))?;
        let refuse = |at: &str, why: String| {
            let error = DescriptionError::Invalid { at: at.to_owned(), why };
            LabError::description(name, error)
        };
        let lab = description.lab.as_ref().ok_or_else(|| {
            let table = "cpus_per_node = 2, memory_per_node = \"512 MiB\", cache_scale = 16";
            refuse("lab", format!("is missing; the lab needs a table like [lab] {table}"))
        })?;
        if machine.nodes.len() > MAX_NODES {
            return Err(refuse("nodes", format!("QEMU emulates at most {MAX_NODES}")));
        }
        let mut nodes = Vec::new();
        let mut next = 0;
        for (i, node) in machine.nodes.iter().enumerate() {
            if node.id.0 as usize != i {
                let why = format!("node {i} is missing; QEMU numbers nodes without gaps");
                return Err(refuse("nodes", why));
            }
            if node.memory_bytes == 0 {
                let why = format!("node {i} has no memory; QEMU cannot emulate such a node");
                return Err(refuse("nodes", why));
            }
            let cpus = if node.cpus.is_empty() { 0 } else { lab.cpus_per_node };
            nodes.push(GuestNode { cpus: next..next + cpus, memory_bytes: lab.memory_per_node.0 });
            next += cpus;
        }
        if next > MAX_CPUS {
            let why = format!("makes {next} CPUs; at most {MAX_CPUS} can be emulated");
            return Err(refuse("lab.cpus_per_node", why));
        }
        let with_cpus = nodes.iter().filter(|n| !n.cpus.is_empty()).count();
        let per_package = description.processor.nodes_per_package.unwrap_or(1).max(1);
        // All packages have the same size; if the nodes do not fill whole packages, each node is
        // one.
        let fits = with_cpus.is_multiple_of(per_package as usize);
        Ok(Self {
            name: name.to_owned(),
            nodes,
            nodes_per_package: if fits { per_package } else { 1 },
            cpus_per_node: lab.cpus_per_node,
            distances: machine.distances,
            latency_ns: machine.figures.latency_ns,
            bandwidth_gb_per_s: machine.figures.bandwidth_gb_per_s,
            cache_scale: lab.cache_scale,
        })
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.nodes.last().map_or(0, |node| node.cpus.end)
    }

    /// Size of the memory of all nodes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_bytes).sum()
    }

    /// The physical addresses that QEMU uses: the memory of the nodes in order, with a hole below 4
    /// GiB when the memory exceeds the space under it (`pc_q35_init`).
    #[must_use]
    pub fn layout(&self) -> Layout {
        const HOLE: u64 = 0xb000_0000;
        const LOW: u64 = 0x8000_0000;
        const HIGH: u64 = 1 << 32;
        let low = if self.memory_bytes() >= HOLE { LOW } else { HOLE };
        let mut ranges = Vec::new();
        let mut next = 0;
        for (node, memory) in self.nodes.iter().map(|n| n.memory_bytes).enumerate() {
            let end = next + memory;
            let below = next..end.min(low);
            let above = next.max(low)..end;
            if !below.is_empty() {
                ranges.push(MemoryRange {
                    node,
                    start: below.start,
                    bytes: below.end - below.start,
                });
            }
            if !above.is_empty() {
                let bytes = above.end - above.start;
                ranges.push(MemoryRange { node, start: above.start - low + HIGH, bytes });
            }
            next = end;
        }
        let per_package = self.cpus_per_node * self.nodes_per_package;
        let places = self.nodes.iter().enumerate().flat_map(|(node, n)| {
            n.cpus.clone().map(move |cpu| CpuPlace {
                node,
                core: cpu % per_package,
                package: cpu / per_package,
            })
        });
        Layout { cpus: places.collect(), ranges }
    }

    /// Nodes with CPUs.
    pub fn initiators(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().enumerate().filter(|(_, n)| !n.cpus.is_empty()).map(|(i, _)| i)
    }
}
