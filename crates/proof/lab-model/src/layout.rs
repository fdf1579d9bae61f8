//! The layout of the emulated machine, as given to the emulator.

use serde::{Deserialize, Serialize};

use crate::ModelError;

/// Size of the smallest page. Translation keeps the offset in a page.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The location of the emulated machine's CPUs and memory. Nodes are indices into the description's
/// nodes, and equal the guest's node IDs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The virtual CPUs, by their index.
    pub cpus: Vec<CpuPlace>,
    /// Guest-physical memory.
    pub ranges: Vec<MemoryRange>,
}

/// The location of a virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPlace {
    /// Node.
    pub node: usize,
    /// Core within the package.
    pub core: u32,
    /// Package.
    pub package: u32,
}

/// A range of guest-physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRange {
    /// Home node.
    pub node: usize,
    /// The start address.
    pub start: u64,
    /// The size.
    pub bytes: u64,
}

impl Layout {
    /// Checks that the layout has CPUs and memory, that their nodes exist, and that the ranges do
    /// not overlap.
    pub(crate) fn check(&self, nodes: usize) -> Result<(), ModelError> {
        let wrong = |why: String| Err(ModelError::Layout(why));
        if self.cpus.is_empty() {
            return wrong("it has no CPU".to_owned());
        }
        if self.ranges.is_empty() {
            return wrong("it has no memory".to_owned());
        }
        let of_cpus = self.cpus.iter().map(|c| c.node);
        let used = of_cpus.chain(self.ranges.iter().map(|r| r.node));
        if let Some(node) = used.into_iter().find(|node| *node >= nodes) {
            return wrong(format!("node {node} is used, the description has {nodes} nodes"));
        }
        let mut ranges = self.ranges.clone();
        ranges.sort_by_key(|r| r.start);
        for range in &ranges {
            if range.bytes == 0 {
                return wrong(format!("node {} has a range of no memory", range.node));
            }
            if !range.start.is_multiple_of(PAGE_BYTES) || !range.bytes.is_multiple_of(PAGE_BYTES) {
                return wrong(format!("memory of node {} is not one of whole pages", range.node));
            }
            if range.start.checked_add(range.bytes).is_none() {
                return wrong(format!("memory of node {} ends beyond all addresses", range.node));
            }
        }
        if let Some(pair) = ranges.windows(2).find(|p| p[0].start + p[0].bytes > p[1].start) {
            return wrong(format!(
                "memory of nodes {} and {} overlaps at {:#x}",
                pair[0].node, pair[1].node, pair[1].start
            ));
        }
        Ok(())
    }
}
