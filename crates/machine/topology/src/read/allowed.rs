//! What the calling process may use: its affinity and its cpuset.
//!
//! Source: proc_pid_status(5), `Cpus_allowed_list` and `Mems_allowed_list`. Unlike
//! `get_mempolicy`, the file can also be read under the seccomp filters of containers.
//!
//! On this machine, the C library is asked for the CPUs first: where `numapilot run` has pinned the
//! calling thread to one CPU, its answer is all CPUs of the run, as for any other program.

use numapilot_sys::affinity;

use super::tree::{Dir, parse};
use super::{ReadError, node_dir};
use crate::{Allowed, CpuSet, IdSet, Node, NodeSet};

/// The online CPUs and the nodes with memory that the process may use; all of them where the tree
/// does not say.
pub(super) fn read(root: &Dir, online: &CpuSet, nodes: &[Node]) -> Result<Allowed, ReadError> {
    let with_memory: NodeSet = nodes.iter().filter(|n| n.memory_bytes > 0).map(|n| n.id).collect();
    let status = root.find(
        "proc/self/status",
        "lines such as Cpus_allowed_list: 0-3 and Mems_allowed_list: 0",
        |text| Some((field(text, "Cpus_allowed_list")?, field(text, "Mems_allowed_list")?)),
    )?;
    let (mut cpus, mems): (Option<CpuSet>, Option<NodeSet>) = status.unwrap_or_default();
    if root.is_this_machine()
        && let Ok(words) = affinity::by_c_library()
    {
        cpus = Some(CpuSet::from_words(&words));
    }
    // A kernel without NUMA reports nothing useful about nodes.
    let mems = if node_dir(root)?.is_some() { mems } else { None };
    Ok(Allowed {
        cpus: cpus.map_or_else(|| online.clone(), |cpus| cpus.intersection(online)),
        nodes: mems.map_or_else(|| with_memory.clone(), |mems| mems.intersection(&with_memory)),
    })
}

/// `Some(None)` where the line is missing: kernels without cpusets have none for nodes.
fn field<T: From<u32> + Into<u32> + Copy>(text: &str, key: &str) -> Option<Option<IdSet<T>>> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    match value {
        Some(list) => parse::list(list).map(Some),
        None => Some(None),
    }
}
