//! Reads the nodes that a target may use and the kernel's handling of its pages, as of now: its
//! cpuset can change while it runs.

use std::fs::File;
use std::io::Read;

use numapilot_observe::numa_maps::moved_by_auto_numa;
use numapilot_observe::thread_group::task_with_memory;
use numapilot_topology::{Machine, NodeSet};
use procfs::Current;
use procfs::process::Process;

/// Nodes that pages of a process may be moved to.
pub fn usable(pid: i32, machine: &Machine) -> NodeSet {
    let status = Process::new(pid).and_then(|process| process.status());
    let allowed = match status.ok().and_then(|status| status.mems_allowed_list) {
        Some(ranges) => ranges.iter().flat_map(|(from, to)| *from..=*to).map(Into::into).collect(),
        // The kernel has no cpusets.
        None => machine.allowed.nodes.clone(),
    };
    machine.memory_nodes().intersection(&allowed)
}

/// Whether AutoNUMA, which is on, moves the pages of a process to their users: the process's policy
/// can prevent that.
pub fn kernel_collocates(pid: i32) -> bool {
    // Read only the first mapping: for the others the kernel would walk through their pages.
    let mut start = [0u8; 64];
    let path = format!("/proc/{}/numa_maps", task_with_memory(pid));
    let read = File::open(path).and_then(|mut f| f.read(&mut start));
    let read = read.ok().and_then(|length| moved_by_auto_numa(start.get(..length)?));
    read.unwrap_or(true)
}

/// Share of the machine's memory in use; 1 if unknown.
pub fn memory_used() -> f64 {
    let used = procfs::Meminfo::current().ok().and_then(|memory| {
        let available = memory.mem_available.unwrap_or(memory.mem_free);
        (memory.mem_total > 0).then(|| 1.0 - available as f64 / memory.mem_total as f64)
    });
    used.unwrap_or(1.0)
}
