//! Machine descriptions: a machine as a TOML file in which every figure has a source.
//!
//! A description states what `/sys` does not: frequencies, latencies, bandwidths, links and TLBs.
//! The shipped machines are descriptions, a measurement is saved as one, and an emulated machine is
//! built from one. `docs/src/machines.md` documents the format key by key.
//!
//! ```text
//!  machines/*.toml --parse--> Description --machine()--> Machine
//!                                ^                          |
//!  topo --measure --save FILE <--+------- measured() <------+
//! ```
//!
//! Each table has a `source`, either one text for the whole table or one per key. A figure without
//! a source is refused (see `source`).

mod convert;
mod error;
mod measured;
mod shipped;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod validate;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use error::DescriptionError;
pub use shipped::{SHIPPED, shipped_names};
pub use source::Source;
pub use text::{ByteSize, SharedBy};

use crate::{CacheKind, Machine, NodeId, NodeSet, bounded, toml_text};

/// The largest description file in bytes: a hundred times the longest one shipped.
const LONGEST: u64 = 1 << 20;

/// A machine description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// A one-line description of the machine.
    pub title: String,
    /// Where the machine is described: the paper and table, or who measured it and when.
    pub source: String,
    /// The processors, which are all alike.
    pub processor: Processor,
    /// One core's view of the caches, smallest level first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheLevel>,
    /// Address translation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb: Option<Tlb>,
    /// The nodes; one entry describes all nodes that are alike.
    pub nodes: Vec<NodeGroup>,
    /// Links between nodes; one entry describes all links that are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkGroup>,
    /// The cost of an access from one node to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distances: Option<Distances>,
    /// Latency while the node's other CPUs read at a given rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded_latency: Vec<LoadedLatency>,
    /// The scale at which the machine is emulated. These are settings, so they need no source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<Lab>,
}

/// The processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Model name.
    pub model: String,
    /// Clock frequency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ghz: Option<f64>,
    /// Cycles per instruction when every access hits the first-level cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_cpi: Option<f64>,
    /// Memory-level parallelism: cache misses that overlap, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_level_parallelism: Option<f64>,
    /// Nodes with CPUs per package; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_per_package: Option<u32>,
    /// Where the figures come from.
    pub source: Source,
}

/// A level of cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// 1, 2, 3, ...
    pub level: u32,
    /// The contents of the cache; unified by default.
    #[serde(default = "unified", skip_serializing_if = "is_unified")]
    pub kind: CacheKind,
    /// Capacity of one cache.
    pub size: ByteSize,
    /// Associativity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
    /// Line size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_bytes: Option<u32>,
    /// Load-to-use latency of a hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_cycles: Option<f64>,
    /// Which CPUs share one cache.
    pub shared_by: SharedBy,
    /// Where the figures come from.
    pub source: Source,
}

fn unified() -> CacheKind {
    CacheKind::Unified
}

// Serde prescribes the signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_unified(kind: &CacheKind) -> bool {
    *kind == CacheKind::Unified
}

/// Address translation of one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Entries for 4 KiB pages, first level first.
    pub entries_4k: Vec<u32>,
    /// Entries for 2 MiB pages, first level first.
    pub entries_2m: Vec<u32>,
    /// Cost of a page walk after a miss in every level.
    pub walk_cycles: f64,
    /// Where the figures come from.
    pub source: Source,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeGroup {
    /// Their ids, as a list: `"0-7"`.
    #[serde(with = "text::list")]
    pub ids: NodeSet,
    /// Cores of each node; 0 for a memory-only node.
    pub cores: u32,
    /// SMT threads per core; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads_per_core: Option<u32>,
    /// CPU ids of the single node in this entry, first threads of all cores first. By default, CPUs
    /// are numbered across all nodes, first threads first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Memory of each node; left out for a CPU-only node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Latency from the node's own CPUs to its memory on an idle machine. For a memory-only node:
    /// from the CPUs of a node that is linked to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// Read bandwidth of the node's memory, in 10^9 bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_gb_per_s: Option<f64>,
    /// Where the figures come from.
    pub source: Source,
}

impl NodeGroup {
    /// CPUs of each node.
    #[must_use]
    pub fn cpus_per_node(&self) -> u32 {
        self.cores.saturating_mul(self.threads_per_core.unwrap_or(1))
    }
}

/// Links that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkGroup {
    /// Pairs of linked nodes.
    pub between: Vec<[NodeId; 2]>,
    /// Bandwidth of one direction, in 10^9 bytes per second.
    pub bandwidth_gb_per_s: f64,
    /// Where the figures come from.
    pub source: Source,
}

/// The cost of an access from one node to another: factors by hops over the links, or whole
/// matrices (row = from, column = to, in ascending order of node id).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distances {
    /// Latency relative to local, by number of hops; the first is 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hop_factors: Vec<f64>,
    /// Latency matrix; the row of a memory-only node is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_ns: Vec<Vec<f64>>,
    /// Read bandwidth matrix; the row of a memory-only node is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bandwidth_gb_per_s: Vec<Vec<f64>>,
    /// SLIT distances as the firmware states them; by default, they are derived from latency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slit: Vec<Vec<u32>>,
    /// Where the figures come from.
    pub source: Source,
}

/// Latency of one CPU while the others of its node read local memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedLatency {
    /// The node.
    pub node: NodeId,
    /// Bandwidth taken by the other CPUs, in 10^9 bytes per second.
    pub bandwidth_gb_per_s: Vec<f64>,
    /// Latency at each of these bandwidths.
    pub latency_ns: Vec<f64>,
    /// Where the figures come from.
    pub source: Source,
}

/// The scale of the emulated machine, so that terabytes and hundreds of CPUs fit on a laptop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// CPUs of each node that has CPUs.
    pub cpus_per_node: u32,
    /// Memory of each node that has memory.
    pub memory_per_node: ByteSize,
    /// Cache capacities (and TLB entries) are divided by this.
    pub cache_scale: u32,
}

impl Description {
    /// Reads and checks a description.
    ///
    /// # Errors
    /// [`DescriptionError`] naming the place in the text, the cause and the remedy.
    pub fn parse(text: &str) -> Result<Self, DescriptionError> {
        let description: Self = toml_text::parse(text)?;
        description.check()?;
        Ok(description)
    }

    /// Reads and checks a description file.
    ///
    /// # Errors
    /// As [`Description::parse`], and when the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, DescriptionError> {
        let text = bounded::read(path, LONGEST)
            .map_err(|cause| DescriptionError::Unreadable { path: path.to_owned(), cause })?;
        Self::parse(&text)
            .map_err(|e| DescriptionError::InFile { path: path.to_owned(), error: Box::new(e) })
    }

    /// The text of a description, as [`Description::parse`] reads it.
    ///
    /// # Errors
    /// When the description does not pass its own checks.
    pub fn to_toml(&self) -> Result<String, DescriptionError> {
        self.check()?;
        Ok(toml::to_string(self)?)
    }
}

/// The machine in this file, or the shipped machine of this name.
///
/// The name of a shipped machine comes first; anything with a `/` or a `.toml` ending is a file.
///
/// # Errors
/// As [`Description::read`]. The error for an unknown name lists the shipped machines.
pub fn machine_named(name_or_file: &str) -> Result<Machine, DescriptionError> {
    let (name, description) = named(name_or_file)?;
    description
        .machine(&name)
        .map_err(|e| DescriptionError::InFile { path: name_or_file.into(), error: Box::new(e) })
}

/// As [`machine_named`], with all that a [`Machine`] leaves out. The first value is the short name.
///
/// # Errors
/// As [`machine_named`].
pub fn named(name_or_file: &str) -> Result<(String, Description), DescriptionError> {
    if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_file) {
        return Ok(((*name).to_owned(), Description::parse(text)?));
    }
    let path = Path::new(name_or_file);
    if !path.exists() && path.components().count() == 1 && path.extension().is_none() {
        return Err(DescriptionError::UnknownName { name: name_or_file.to_owned() });
    }
    let stem = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    Ok((stem, Description::read(path)?))
}
