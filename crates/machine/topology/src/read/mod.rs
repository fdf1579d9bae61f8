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
//!   ├── allowed                       /proc/self/status
//!   └── procfs                        /proc alone, where /sys is not mounted
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
mod procfs;
mod tiers;
mod tree;

use std::path::Path;
use std::thread;

pub use error::ReadError;
pub(crate) use processor::is_field;

use crate::{Figures, Machine, Recording};
use tree::Dir;

/// How much of a machine is read. A large machine shows thousands of files, and the start of a
/// program waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Nodes with their CPUs and memory, distances, and what the process may use. [`Machine::cpus`]
    /// stays empty.
    Nodes,
    /// Also every CPU with its siblings and package.
    Cpus,
    /// Also core numbers, caches, huge page pools, memory tiers, the firmware's figures and
    /// the processor.
    All,
}

/// Reads the machine whose `sys` and `proc` are below `root`: `/`, or a directory with a copy of
/// another machine's files.
///
/// [`Machine::allowed`] is what the calling process may use. In a copy, it is what the process that
/// made the copy could use, or everything when the copy does not say.
///
/// Where sysfs is not mounted, the result is what `/proc` alone shows: nodes with their memory, and
/// CPUs. The node of a CPU is then known only on a machine with one node.
///
/// # Errors
/// [`ReadError`] when a file that every kernel has is missing, or when a file does not hold what
/// the kernel writes.
pub fn read(root: &Path) -> Result<Machine, ReadError> {
    read_extent(root, Extent::All)
}

/// As [`read`], but only up to `extent`.
///
/// # Errors
/// As [`read`].
pub fn read_extent(root: &Path, extent: Extent) -> Result<Machine, ReadError> {
    read_tree(&Dir::root(root)?, extent)
}

impl Recording {
    /// Reads the machine from these files, as [`read`] does after they are unpacked. Paths in an
    /// error are those of the recording.
    ///
    /// # Errors
    /// As [`read`].
    pub fn machine(&self) -> Result<Machine, ReadError> {
        read_tree(&Dir::recorded(self), Extent::All)
    }
}

fn read_tree(root: &Dir, extent: Extent) -> Result<Machine, ReadError> {
    if let Some(machine) = procfs::read(root)? {
        return Ok(machine);
    }
    let online = cpus::online(root)?;
    let nodes = nodes::read(root, &online)?;
    let mut machine = Machine {
        name: processor::host_name(root)?,
        processor: None,
        cpus: Vec::new(),
        caches: Vec::new(),
        distances: distances::read(root, &nodes)?,
        links: Vec::new(),
        figures: Figures::default(),
        allowed: allowed::read(root, &online, &nodes)?,
        nodes,
    };
    if extent >= Extent::Cpus {
        machine.cpus = cpus::read(root, &online, &machine.nodes)?;
    }
    if extent >= Extent::All {
        add_rest(root, &mut machine)?;
    }
    Ok(machine)
}

/// Half of a machine's files describe caches, so a second thread reads those at the same time.
fn add_rest(root: &Dir, machine: &mut Machine) -> Result<(), ReadError> {
    let cpus = &mut machine.cpus;
    let (caches, cores) = thread::scope(|scope| {
        let caches = || caches::read(root, cpus);
        let thread = thread::Builder::new().spawn_scoped(scope, caches);
        let cores = cpus::core_numbers(root, cpus);
        // If no thread could be started, the caches are read afterwards.
        (thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(caches), cores)
    });
    machine.caches = caches?;
    for (cpu, core) in cpus.iter_mut().zip(cores?) {
        cpu.core = core;
    }
    nodes::add_pools_and_tiers(root, &mut machine.nodes)?;
    machine.processor = processor::model(root)?;
    machine.figures = hmat::read(root, &machine.nodes)?;
    Ok(())
}

/// The directory of all nodes; `None` on a kernel without NUMA.
fn node_dir<'a>(root: &Dir<'a>) -> Result<Option<Dir<'a>>, ReadError> {
    root.dir("sys/devices/system/node")
}

/// The directory of all CPUs.
fn cpu_dir<'a>(root: &Dir<'a>) -> Result<Dir<'a>, ReadError> {
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
    fn what_is_read_of_a_part_is_what_is_read_of_all() {
        let all = read(Path::new("/")).unwrap();
        let mut cpus = read_extent(Path::new("/"), Extent::Cpus).unwrap();
        for (cpu, known) in cpus.cpus.iter_mut().zip(&all.cpus) {
            assert_eq!(cpu.core.take(), None);
            cpu.core = known.core;
        }
        assert_eq!(cpus.cpus, all.cpus);
        assert!(cpus.caches.is_empty() && cpus.processor.is_none());
        let nodes = read_extent(Path::new("/"), Extent::Nodes).unwrap();
        assert!(nodes.cpus.is_empty());
        for part in [cpus, nodes] {
            assert_eq!(
                (part.distances, part.allowed),
                (all.distances.clone(), all.allowed.clone())
            );
            let known = |m: &[crate::Node]| -> Vec<_> {
                m.iter().map(|n| (n.id, n.cpus.clone(), n.memory_bytes)).collect()
            };
            assert_eq!(known(&part.nodes), known(&all.nodes));
        }
    }

    #[test]
    fn a_missing_root_says_what_is_missing() {
        let error = read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent is missing"), "{error}");
    }
}
