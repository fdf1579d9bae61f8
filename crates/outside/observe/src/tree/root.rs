//! Checks that a process can be observed.

use procfs::ProcError;
use procfs::process::{Process, Stat};

use crate::ObserveError;
use crate::thread_group::{has_ended, open_memory_file};

/// Whether it is a kernel thread: `PF_KTHREAD` of include/linux/sched.h, which proc_pid_stat(5) shows in field 9.
#[must_use]
pub const fn is_kernel_thread(stat: &Stat) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    stat.flags & PF_KTHREAD != 0
}

/// Opens a process whose memory may be inspected.
pub fn open(pid: i32) -> Result<Process, ObserveError> {
    let no_process = || ObserveError::NoProcess { pid };
    let process = Process::new(pid).map_err(|_| no_process())?;
    let stat = process.stat().map_err(|_| no_process())?;
    if has_ended(&stat) {
        return Err(no_process());
    }
    if is_kernel_thread(&stat) {
        return Err(ObserveError::KernelThread { pid, name: stat.comm });
    }
    match open_memory_file(&process, "numa_maps") {
        Err(ProcError::PermissionDenied(_)) => {
            let owner = process.uid().map_err(|_| no_process())?;
            let me = rustix::process::geteuid().as_raw();
            Err(match owner == me {
                true => ObserveError::Protected { pid },
                false => ObserveError::NotPermitted { pid, owner, me },
            })
        }
        // Other errors (a kernel without NUMA, a process that has just ended) are found when it is read.
        _ => Ok(process),
    }
}
