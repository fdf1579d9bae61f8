//! The ancestors of a process.

use procfs::process::Process;

/// The ancestors of a process, its parent first.
#[must_use]
pub fn ancestors(pid: i32) -> Vec<i32> {
    let parent = |pid: i32| Process::new(pid).ok()?.stat().ok().map(|stat| stat.ppid);
    let next = |pid: &i32| parent(*pid).filter(|parent| *parent > 0);
    std::iter::successors(next(&pid), next).collect()
}
