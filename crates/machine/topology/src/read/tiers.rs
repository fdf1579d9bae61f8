//! Reads the memory tiers: nodes that the kernel considers equally fast. The lower, the faster.
//!
//! Source: Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers (6.1).

use super::ReadError;
use super::tree::{Dir, parse};
use crate::NodeSet;

/// Number and nodes of each tier, fastest first; none before Linux 6.1.
pub(super) fn read(root: &Dir) -> Result<Vec<(u32, NodeSet)>, ReadError> {
    let Some(dir) = root.dir("sys/devices/virtual/memory_tiering")? else {
        return Ok(Vec::new());
    };
    let mut tiers = Vec::new();
    for tier in dir.numbered("memory_tier")? {
        let file = format!("memory_tier{tier}/nodelist");
        if let Some(nodes) = dir.find(&file, parse::LIST_OF_NODES, parse::list)? {
            tiers.push((tier, nodes));
        }
    }
    Ok(tiers)
}
