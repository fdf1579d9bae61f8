//! Memory of one process on each node.

use std::io::BufReader;

use procfs::ProcError;
use procfs::process::Process;
use thiserror::Error;

use crate::numa_maps::{self, NodeBytes};
use crate::thread_group::{has_ended, open_memory_file};

/// Why the memory of a process on each node is not known. The text does not name the process.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeMemoryError {
    /// This user may not inspect the process.
    #[error("numa_maps may not be read: run numapilot as root (CAP_SYS_PTRACE)")]
    NotPermitted,
    /// A process of this user that the kernel protects from others.
    #[error(
        "numa_maps may not be read: the process has made itself undumpable (prctl \
         PR_SET_DUMPABLE) or lives in another user namespace"
    )]
    Protected,
    /// A kernel without NUMA.
    #[error("this kernel is built without NUMA support (CONFIG_NUMA)")]
    NoNuma,
}

/// Bytes of a process on each node. Shared pages count for each process. There are none if the
/// process has ended: its memory is freed by then.
///
/// # Errors
/// [`NodeMemoryError`] if the process runs and its memory cannot be read.
pub fn node_bytes(process: &Process) -> Result<NodeBytes, NodeMemoryError> {
    match open_memory_file(process, "numa_maps") {
        // Reading fails if the process ends.
        Ok(file) => Ok(numa_maps::sum(BufReader::with_capacity(1 << 16, file)).unwrap_or_default()),
        Err(ProcError::PermissionDenied(_)) => {
            let me = rustix::process::geteuid().as_raw();
            Err(match process.uid() {
                Ok(owner) if owner == me => NodeMemoryError::Protected,
                _ => NodeMemoryError::NotPermitted,
            })
        }
        Err(_) if process.stat().is_ok_and(|stat| !has_ended(&stat)) => {
            Err(NodeMemoryError::NoNuma)
        }
        Err(_) => Ok(NodeBytes::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_has_memory_until_it_ends() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::new(child.id().cast_signed()).unwrap();
        match node_bytes(&process) {
            Ok(bytes) => assert!(bytes.values().sum::<u64>() > 0, "{bytes:?}"),
            Err(error) => assert_eq!(error, NodeMemoryError::NoNuma),
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(node_bytes(&process), Ok(NodeBytes::new()));
    }
}
