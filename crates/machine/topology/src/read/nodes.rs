//! Reads the nodes with their CPUs and memory. A kernel without NUMA shows none; its machine has
//! one node.

use super::tree::{Dir, parse};
use super::{ReadError, hugepages, node_dir, tiers};
use crate::{CpuSet, Node, NodeId, NodeSet};

/// Most nodes accepted: a kernel can be built for 1024 at most (`NODES_SHIFT` 10).
const MAX_NODES: u32 = 1024;

const MEMORY: &str = "a line with MemTotal and one with MemFree in kB";

/// Every online node in ascending order of id, without huge page pools and tier.
pub(super) fn read(root: &Dir, online: &CpuSet) -> Result<Vec<Node>, ReadError> {
    let Some(dir) = node_dir(root)? else { return Ok(vec![whole_machine(root, online)?]) };
    let ids = dir.need("online", parse::LIST_OF_NODES, |text| {
        let ids: NodeSet = parse::list(text)?;
        (!ids.is_empty() && ids.iter().all(|id| id.0 < MAX_NODES)).then_some(ids)
    })?;
    let mut nodes = Vec::with_capacity(ids.len());
    let mut taken = CpuSet::new();
    for id in ids.iter() {
        let node = one(&dir, id, online)?;
        let twice = node.cpus.intersection(&taken);
        if !twice.is_empty() {
            return Err(ReadError::Contradiction {
                path: dir.path(&format!("node{id}/cpulist")),
                contradiction: format!("CPU {twice} is already on another node"),
            });
        }
        taken = taken.union(&node.cpus);
        nodes.push(node);
    }
    Ok(nodes)
}

fn one(dir: &Dir, id: NodeId, online: &CpuSet) -> Result<Node, ReadError> {
    let cpus: CpuSet = dir.need(&format!("node{id}/cpulist"), parse::LIST_OF_CPUS, parse::list)?;
    let (memory_bytes, free_bytes) = dir.need(&format!("node{id}/meminfo"), MEMORY, memory)?;
    Ok(Node {
        id,
        // A CPU may have gone offline since the list of online CPUs was read.
        cpus: cpus.intersection(online),
        memory_bytes,
        free_bytes: Some(free_bytes),
        ..Node::default()
    })
}

/// Adds huge page pools and tiers to the nodes from [`read`].
pub(super) fn add_pools_and_tiers(root: &Dir, nodes: &mut [Node]) -> Result<(), ReadError> {
    let dir = node_dir(root)?;
    let tiers = tiers::read(root)?;
    for node in nodes {
        node.huge_pages = match &dir {
            Some(dir) => hugepages::read(dir, &format!("node{}/hugepages", node.id))?,
            None => hugepages::read(root, "sys/kernel/mm/hugepages")?,
        };
        node.tier = tiers.iter().find(|(_, nodes)| nodes.contains(node.id)).map(|(tier, _)| *tier);
    }
    Ok(())
}

fn whole_machine(root: &Dir, online: &CpuSet) -> Result<Node, ReadError> {
    let (memory_bytes, free_bytes) = root.need("proc/meminfo", MEMORY, memory)?;
    Ok(Node {
        id: NodeId(0),
        cpus: online.clone(),
        memory_bytes,
        free_bytes: Some(free_bytes),
        ..Node::default()
    })
}

/// Total and free memory in bytes.
fn memory(text: &str) -> Option<(u64, u64)> {
    Some((parse::kilobytes(text, "MemTotal")?, parse::kilobytes(text, "MemFree")?))
}
