//! Reads the machine from `/proc` alone, for sandboxes that do not mount sysfs.
//!
//! Source: proc_stat(5), proc_zoneinfo(5), proc_pid_status(5). `/proc` does not say which node a
//! CPU belongs to, so this is known only on a machine with one node.

use std::collections::BTreeMap;

use super::tree::{Dir, parse};
use super::{ReadError, allowed, distances, processor};
use crate::{Cpu, CpuId, CpuSet, Figures, Machine, Node, NodeId};

/// A limit for `/proc/zoneinfo`, which lists a page set for every CPU.
const MAX_BYTES: usize = 4 << 20;

/// The machine; `None` where sysfs is mounted or `/proc` is not.
pub(super) fn read(root: &Dir) -> Result<Option<Machine>, ReadError> {
    if root.dir("sys/devices/system/cpu")?.is_some() {
        return Ok(None);
    }
    let Some(stat) = root.text("proc/stat", MAX_BYTES)? else { return Ok(None) };
    let online: CpuSet = stat
        .lines()
        .filter_map(|line| parse::number(line.split_whitespace().next()?.strip_prefix("cpu")?))
        .map(CpuId)
        .collect();
    let mut nodes = nodes(&root.text("proc/zoneinfo", MAX_BYTES)?.unwrap_or_default());
    if online.is_empty() || nodes.is_empty() {
        return Ok(None);
    }
    let mut node_of_all = None;
    if let [node] = nodes.as_mut_slice() {
        node.cpus = online.clone();
        node_of_all = Some(node.id);
    }
    let cpus = online.iter().map(|id| Cpu {
        id,
        node: node_of_all,
        online: true,
        core: None,
        package: None,
        siblings: [id].into_iter().collect(),
    });
    Ok(Some(Machine {
        name: processor::host_name(root)?,
        processor: processor::model(root)?,
        cpus: cpus.collect(),
        caches: Vec::new(),
        distances: distances::read(root, &nodes)?,
        links: Vec::new(),
        figures: Figures::default(),
        allowed: allowed::read(root, &online, &nodes)?,
        nodes,
    }))
}

/// Nodes with the memory of their zones.
fn nodes(zoneinfo: &str) -> Vec<Node> {
    let page_bytes = numapilot_sys::page_size() as u64;
    let mut bytes: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut node = None;
    for line in zoneinfo.lines() {
        if let Some(rest) = line.strip_prefix("Node ") {
            node = rest.split(',').next().and_then(parse::number).map(NodeId);
            if let Some(node) = node {
                bytes.entry(node).or_default();
            }
        } else if let Some(pages) = line.trim_start().strip_prefix("present ")
            && let Some(total) = node.and_then(|node| bytes.get_mut(&node))
        {
            let pages: u64 = parse::number(pages.trim()).unwrap_or(0);
            *total = total.saturating_add(pages.saturating_mul(page_bytes));
        }
    }
    let node = |(id, memory_bytes)| Node { id, memory_bytes, ..Node::default() };
    bytes.into_iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    const ZONEINFO: &str = "Node 0, zone      DMA\n  pages free     3\n        present  4\n\
                            Node 0, zone   Normal\n        present  6\n    cpu: 0\n";

    fn machine(zoneinfo: &str) -> crate::Machine {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/stat", "cpu  1 2 3\ncpu0 1 2\ncpu2 1 2\nintr 1\n");
        write("proc/zoneinfo", zoneinfo);
        write("proc/self/status", "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0-1\n");
        crate::read(directory.path()).unwrap()
    }

    #[test]
    fn without_sysfs_proc_says_what_there_is() {
        let one = machine(ZONEINFO);
        assert_eq!(one.node_ids().to_string(), "0");
        assert_eq!(one.nodes[0].memory_bytes, 10 * numapilot_sys::page_size() as u64);
        assert_eq!(one.nodes[0].cpus.to_string(), "0,2");
        assert_eq!(one.allowed.cpus.to_string(), "0,2");
        let two = machine(&format!("{ZONEINFO}Node 1, zone Normal\n  present 8\n"));
        assert_eq!(two.allowed.nodes.to_string(), "0-1");
        assert!(two.nodes.iter().all(|node| node.cpus.is_empty()));
        assert!(two.cpus.iter().all(|cpu| cpu.node.is_none()));
    }

    /// `/proc` and sysfs agree about the running machine.
    #[test]
    fn proc_agrees_with_sysfs() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc", directory.path().join("proc")).unwrap();
        let (proc, sys) =
            (crate::read(directory.path()).unwrap(), crate::read(Path::new("/")).unwrap());
        assert_eq!(proc.memory_nodes(), sys.memory_nodes());
        assert_eq!(proc.online_cpus(), sys.online_cpus());
        assert_eq!(proc.allowed, sys.allowed);
    }
}
