//! Reads the machine from the kernel: `/sys/devices/system/{node,cpu}` and `/proc`, or a
//! copy of them.
//!
//! ```text
//!  tree  small files, relative to an open directory
//!   ├── nodes ── hugepages, tiers     nodeN/{cpulist,meminfo,hugepages}, memory_tierN
//!   ├── cpus                          cpuN/topology, offline CPUs
//!   ├── caches                        cpuN/cache/indexN, each cache once
//!   ├── distances, hmat               nodeN/distance, nodeN/access*/initiators
//!   ├── processor                     /proc/cpuinfo
//!   └── allowed                       /proc/self/status
//! ```
//!
//! Sources: Documentation/ABI/stable/sysfs-devices-node,
//! Documentation/ABI/stable/sysfs-devices-system-cpu,
//! Documentation/admin-guide/mm/numaperf.rst and proc_pid_status(5).

mod allowed;
mod caches;
mod cpus;
mod distances;
mod error;
mod hmat;
mod hugepages;
mod nodes;
mod processor;
mod tiers;
mod tree;

use std::path::Path;

pub use error::ReadError;
pub(crate) use processor::is_field;

use crate::Machine;
use tree::Dir;

/// Reads the machine whose `sys` and `proc` are below `root`: `/`, or a directory with a
/// copy of another machine's.
///
/// [`Machine::allowed`] is what the calling process may use; in a copy, what the process
/// that made the copy could use, or everything when the copy does not say.
///
/// # Errors
/// [`ReadError`] when a file that every kernel has is missing, or one does not hold what
/// the kernel writes.
pub fn read(root: &Path) -> Result<Machine, ReadError> {
    let root = Dir::root(root)?;
    let online = cpus::online(&root)?;
    let nodes = nodes::read(&root, &online)?;
    let cpus = cpus::read(&root, &online, &nodes)?;
    Ok(Machine {
        name: processor::host_name(&root)?,
        processor: processor::model(&root)?,
        caches: caches::read(&root, &cpus)?,
        distances: distances::read(&root, &nodes)?,
        links: Vec::new(),
        figures: hmat::read(&root, &nodes)?,
        allowed: allowed::read(&root, &online, &nodes)?,
        nodes,
        cpus,
    })
}

/// The directory of all nodes; `None` on a kernel without NUMA.
fn node_dir(root: &Dir) -> Result<Option<Dir>, ReadError> {
    root.dir("sys/devices/system/node")
}

/// The directory of all CPUs.
fn cpu_dir(root: &Dir) -> Result<Dir, ReadError> {
    const PATH: &str = "sys/devices/system/cpu";
    root.dir(PATH)?.ok_or_else(|| ReadError::Missing {
        path: root.path(PATH),
        expected: "the kernel's CPU directory",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read() {
        let machine = read(Path::new("/")).unwrap();
        assert!(!machine.nodes.is_empty());
        assert!(!machine.allowed.cpus.is_empty());
        assert!(!machine.allowed.nodes.is_empty());
        assert!(machine.allowed.cpus.is_subset(&machine.online_cpus()));
        assert_eq!(machine.distances.len(), machine.nodes.len());
    }

    #[test]
    fn a_missing_root_says_what_is_missing() {
        let error = read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent is missing"), "{error}");
    }
}
