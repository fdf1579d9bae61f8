//! Control groups and their files.
//!
//! Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use numapilot_observe::thread_group::{has_ended, task_with_memory};
use numapilot_topology::CpuSet;
use procfs::process::Process;
use serde::{Deserialize, Serialize};

use crate::CoresError;

/// What our groups are called.
pub(super) const PREFIX: &str = "numapilot-cores-";

/// The versions of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One for all.
    V2,
}

impl Version {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        }
    }

    /// The file of a group with the CPUs that it really has.
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
    // That of a first thread which has ended is the root of the hierarchy.
    let groups = Process::new(task_with_memory(pid)).ok()?.cgroups().ok()?;
    Some(groups.into_iter().find(|group| is_cpuset(&group.controllers))?.pathname)
}

pub(super) fn runs(pid: i32) -> bool {
    let stat = Process::new(pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| !has_ended(&stat))
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
    // Outside of what is mounted here (a container) there is nothing to be done.
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

/// A number in each line. 0 is a process of another PID namespace.
pub(super) fn numbers(path: &Path) -> Vec<i32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
}

/// Whether a group in version 2 has CPUs or memory nodes set, or hands the controller on.
pub(super) fn limits_cpus(group: &Path) -> bool {
    let text = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    let is_set = |name: &&str| !text(name).trim().is_empty();
    ["cpuset.cpus", "cpuset.mems"].iter().any(is_set)
        || text("cgroup.subtree_control").split_whitespace().any(|name| name == "cpuset")
}

/// The file with the CPUs of the cpuset that a process is in, and whether that is the first one,
/// which has all: there the kernel leaves affinities as they were set.
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

/// Processes that threads of these have started and that live.
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

/// Moves a process; whether it was still there.
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
    // Without O_CREAT: only what the kernel has there.
    let opened = OpenOptions::new().write(true).open(path);
    opened.and_then(|mut open| open.write_all(text.as_bytes())).map_err(file("writing", path))
}

pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CoresError {
    move |source| file_error(what, path, source)
}

pub(super) fn file_error(what: &'static str, path: &Path, source: io::Error) -> CoresError {
    CoresError::File { what, path: path.to_owned(), source }
}
