//! Control groups and their files.
//!
//! Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use numapilot_observe::thread_group::task_with_memory;
use numapilot_topology::CpuSet;
use procfs::process::Process;
use serde::{Deserialize, Serialize};

use crate::CoresError;

/// Prefix of the names of our groups.
pub(super) const PREFIX: &str = "numapilot-cores-";

/// The versions of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy for all controllers.
    V2,
}

impl Version {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        }
    }

    /// The file with a group's effective CPUs.
    pub(super) const fn effective(self) -> &'static str {
        match self {
            Self::V1 => "cpuset.effective_cpus",
            Self::V2 => "cpuset.cpus.effective",
        }
    }
}

/// A process's group in the hierarchy with the cpuset controller, as the kernel names it.
pub(super) fn path_of(version: Version, pid: i32) -> Option<String> {
    let is_cpuset = |controllers: &[String]| match version {
        Version::V1 => controllers.iter().any(|name| name == "cpuset"),
        Version::V2 => controllers.iter().all(String::is_empty),
    };
    // The group of a first thread that has ended is the root of the hierarchy.
    let groups = Process::new(task_with_memory(pid)).ok()?.cgroups().ok()?;
    Some(groups.into_iter().find(|group| is_cpuset(&group.controllers))?.pathname)
}

/// Whether a thread of the process runs that does not exit. A thread that exits leaves its group
/// before it is a zombie.
pub(super) fn runs(pid: i32) -> bool {
    /// From include/linux/sched.h; in the flags of proc_pid_stat(5).
    const PF_EXITING: u32 = 4;
    let Ok(tasks) = Process::new(pid).and_then(|process| process.tasks()) else { return false };
    let mut stats = tasks.flatten().filter_map(|task| task.stat().ok());
    stats.any(|stat| stat.flags & PF_EXITING == 0)
}

/// The directory of a process's group, and its path.
pub(super) fn group_of(version: Version, pid: i32) -> Option<(PathBuf, String)> {
    let path = path_of(version, pid)?;
    let kind = match version {
        Version::V1 => "cgroup",
        Version::V2 => "cgroup2",
    };
    let mounts = Process::myself().ok()?.mountinfo().ok()?;
    let mount = mounts.into_iter().find(|mount| {
        mount.fs_type == kind
            && (version == Version::V2 || mount.super_options.contains_key("cpuset"))
    })?;
    // A group outside the mounted part of the hierarchy (in a container) cannot be used.
    let below = path.strip_prefix(mount.root.trim_end_matches('/'))?.trim_matches('/');
    if below.split('/').any(|part| part == "..") {
        return None;
    }
    let point = mount.mount_point;
    Some((if below.is_empty() { point } else { point.join(below) }, path))
}

pub(super) fn processes(group: &Path) -> Vec<i32> {
    numbers(&group.join("cgroup.procs"))
}

/// Reads one process ID per line; 0 stands for a process of another PID namespace.
pub(super) fn numbers(path: &Path) -> Vec<i32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
}

/// Whether a group in version 2 limits CPUs or memory nodes, or passes the controller to its
/// children.
pub(super) fn limits_cpus(group: &Path) -> bool {
    let text = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    let is_set = |name: &&str| !text(name).trim().is_empty();
    ["cpuset.cpus", "cpuset.mems"].iter().any(is_set)
        || text("cgroup.subtree_control").split_whitespace().any(|name| name == "cpuset")
}

/// The file with the CPUs of a process's cpuset, and whether that is the root cpuset. In the root
/// cpuset, which has all CPUs, the kernel leaves affinities as they were set.
pub(super) fn bounds_of(pid: i32) -> Option<(PathBuf, bool)> {
    [Version::V1, Version::V2].into_iter().find_map(|version| {
        let (group, _) = group_of(version, pid)?;
        let has_cpus = |group: &&Path| group.join(version.effective()).is_file();
        let group = group.ancestors().find(has_cpus)?;
        let is_first = match version {
            Version::V1 => group.join("release_agent").exists(),
            Version::V2 => !group.join("cgroup.type").exists(),
        };
        Some((group.join(version.effective()), is_first))
    })
}

/// Live child processes of all threads of these processes.
pub(super) fn children_of(pids: &[i32]) -> Vec<i32> {
    let tasks = |pid: &i32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let texts: Vec<String> = pids.iter().flat_map(tasks).flatten().filter_map(children).collect();
    texts
        .iter()
        .flat_map(|text| text.split_whitespace())
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

pub(super) fn directories(group: &Path) -> impl Iterator<Item = fs::DirEntry> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

pub(super) fn has_children(group: &Path) -> bool {
    directories(group).next().is_some()
}

pub(super) fn has_ours(group: &Path) -> bool {
    directories(group).any(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
}

/// Moves a process. Returns whether it still existed.
pub(super) fn join(procs: &Path, pid: i32) -> Result<bool, CoresError> {
    match write(procs, &pid.to_string()) {
        Ok(()) => Ok(true),
        Err(CoresError::File { source, .. }) if source.raw_os_error() == Some(libc::ESRCH) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn read_set(path: &Path) -> Result<CpuSet, CoresError> {
    let text = read(path)?;
    CpuSet::parse_list(&text).map_err(|error| {
        let source = io::Error::new(io::ErrorKind::InvalidData, error);
        file("reading", path)(source)
    })
}

pub(super) fn read(path: &Path) -> Result<String, CoresError> {
    fs::read_to_string(path).map_err(file("reading", path))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), CoresError> {
    // Without O_CREAT: only files that the kernel provides are written.
    let opened = OpenOptions::new().write(true).open(path);
    opened.and_then(|mut open| open.write_all(text.as_bytes())).map_err(file("writing", path))
}

pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CoresError {
    move |source| file_error(what, path, source)
}

pub(super) fn file_error(what: &'static str, path: &Path, source: io::Error) -> CoresError {
    CoresError::File { what, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_process_that_exits_or_is_a_zombie_does_not_run() {
        assert!(runs(std::process::id().cast_signed()));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        assert!(runs(pid));
        child.kill().unwrap();
        while runs(pid) {
            thread::sleep(Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert!(!runs(pid));
    }
}
