//! The memory that a workload will need, and the memory that is available. Refusing a run is better
//! than being killed half-way.

use numapilot_observe::Resident;
use procfs::process::Process;

use crate::WorkloadError;

/// Rejects a task that needs more memory than is available.
///
/// # Errors
/// [`WorkloadError::TooLittleMemory`] with the task and how to need less, and
/// [`WorkloadError::Proc`].
pub fn require_available(
    needed_bytes: u64,
    task: impl FnOnce() -> String,
    remedy: impl FnOnce() -> String,
) -> Result<(), WorkloadError> {
    let available_bytes = available_bytes()?;
    if needed_bytes <= available_bytes {
        return Ok(());
    }
    let (task, remedy) = (task(), remedy());
    Err(WorkloadError::TooLittleMemory { task, needed_bytes, available_bytes, remedy })
}

/// The resident memory of this process, including huge pages of hugetlbfs.
///
/// # Errors
/// [`WorkloadError::Proc`].
pub fn resident_bytes() -> Result<u64, WorkloadError> {
    Ok(own()?.now_bytes)
}

/// The high-water mark of this process's resident memory, or its current resident memory including
/// huge pages of hugetlbfs if that is more. Read from `/proc`, because `ru_maxrss` begins with the
/// parent's resident memory at the fork.
///
/// # Errors
/// [`WorkloadError::Proc`].
pub fn peak_rss_bytes() -> Result<u64, WorkloadError> {
    Ok(own()?.peak_bytes)
}

fn own() -> Result<Resident, WorkloadError> {
    let what = "VmRSS in /proc/self/status";
    let process =
        Process::myself().map_err(|e| WorkloadError::Proc { what, reason: e.to_string() });
    let missing = || WorkloadError::Proc { what, reason: "the line is missing".to_owned() };
    Resident::of(&process?).ok_or_else(missing)
}

/// The memory that the kernel can provide without swapping, by its own estimate.
///
/// # Errors
/// [`WorkloadError::Proc`].
pub fn available_bytes() -> Result<u64, WorkloadError> {
    numapilot_observe::available_bytes()
        .map_err(|e| WorkloadError::Proc { what: "/proc/meminfo", reason: e.to_string() })
}
