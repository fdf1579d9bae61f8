//! How much memory a workload will need, and how much there is: better to refuse than to
//! be killed half-way.

use numapilot_observe::Resident;
use procfs::Current;
use procfs::process::Process;

use crate::WorkloadError;

/// Refuses a task that needs more memory than there is.
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

/// What this process has resident now, huge pages of hugetlbfs included.
///
/// # Errors
/// [`WorkloadError::Proc`].
pub fn resident_bytes() -> Result<u64, WorkloadError> {
    Ok(own()?.now_bytes)
}

/// High-water mark of this process's resident memory, or what it has now with huge pages of
/// hugetlbfs where that is more. From `/proc`, because `ru_maxrss`
/// begins with what the parent had resident when it forked.
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

/// What the kernel expects to be able to give without swapping.
///
/// # Errors
/// [`WorkloadError::Proc`].
pub fn available_bytes() -> Result<u64, WorkloadError> {
    let proc = |reason| WorkloadError::Proc { what: "/proc/meminfo", reason };
    let meminfo = procfs::Meminfo::current().map_err(|e| proc(e.to_string()))?;
    Ok(meminfo.mem_available.unwrap_or(meminfo.mem_free))
}
