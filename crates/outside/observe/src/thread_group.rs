//! Processes whose first thread has ended while others run (`pthread_exit` in `main`).
//!
//! Source: proc_pid_task(5), pthread_exit(3), fs/proc/base.c. Until the last thread has ended, the
//! kernel shows the first one as a zombie. The files in `/proc/PID` belong to that thread: those
//! about memory are then empty or cannot be opened. They exist in `/proc/PID/task/TID` of a running
//! thread.

use std::io::{self, BufReader, Read};

use procfs::process::{MemoryMap, MemoryMaps, Process, Stat};
use procfs::{FromBufRead, ProcResult};
use rustix::fs::{Dir, DirEntry};

/// Whether a thread has ended (proc_pid_stat(5): Z for a zombie, X for what is being reaped).
#[must_use]
pub const fn has_thread_ended(stat: &Stat) -> bool {
    matches!(stat.state, 'Z' | 'X')
}

/// Whether the first thread has ended and others run.
pub(crate) const fn lost_its_first(stat: &Stat) -> bool {
    has_thread_ended(stat) && stat.num_threads > 1
}

/// Whether a process has ended: its first thread and all others. It may still exist because its
/// parent has not reaped it.
#[must_use]
pub const fn has_ended(stat: &Stat) -> bool {
    has_thread_ended(stat) && stat.num_threads <= 1
}

/// Threads of a process, or none if it is gone. Only the names are read, because there may be
/// thousands.
pub(crate) fn tids(process: &Process) -> Vec<i32> {
    let list = || -> Option<Vec<i32>> {
        let entries = Dir::read_from(process.open_relative("task").ok()?).ok()?;
        let tid = |entry: DirEntry| entry.file_name().to_str().ok()?.parse().ok();
        Some(entries.flatten().filter_map(tid).collect())
    };
    list().unwrap_or_default()
}

/// A running thread.
fn living_thread(process: &Process) -> Option<i32> {
    let lives = |tid: &i32| {
        let stat = process.task_from_tid(*tid).and_then(|task| task.stat());
        stat.is_ok_and(|stat| !has_thread_ended(&stat))
    };
    tids(process).into_iter().find(lives)
}

/// The id under which the memory of a process is accessible (`/proc/TID`, `move_pages`): its own,
/// or that of a running thread if the first one has ended.
#[must_use]
pub fn task_with_memory(pid: i32) -> i32 {
    let of_another = || {
        let process = Process::new(pid).ok()?;
        lost_its_first(&process.stat().ok()?).then(|| living_thread(&process))?
    };
    of_another().unwrap_or(pid)
}

/// Opens a file about the memory of a process (`maps`, `smaps_rollup`, `numa_maps`, `status`): that
/// of a running thread if the first one has ended.
///
/// # Errors
/// If the process is gone or may not be inspected, or if the kernel has no such file.
pub fn open_memory_file(process: &Process, name: &str) -> ProcResult<impl Read + use<>> {
    let first_lost = process.stat().is_ok_and(|stat| lost_its_first(&stat));
    match first_lost.then(|| living_thread(process)).flatten() {
        Some(tid) => process.open_relative(format!("task/{tid}/{name}")),
        None => process.open_relative(name),
    }
}

/// The mappings of a process. Their names may have any bytes.
///
/// # Errors
/// If the process is gone or may not be inspected.
pub fn maps(pid: i32) -> ProcResult<Vec<MemoryMap>> {
    let mut bytes = Vec::new();
    BufReader::new(open_memory_file(&Process::new(pid)?, "maps")?).read_to_end(&mut bytes)?;
    let maps = MemoryMaps::from_buf_read(io::Cursor::new(&*String::from_utf8_lossy(&bytes)))?;
    Ok(maps.into_iter().collect())
}
