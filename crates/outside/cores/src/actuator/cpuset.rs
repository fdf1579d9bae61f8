//! Holds a target on its CPUs by a control group.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst (cpuset, "no internal processes"),
//! Documentation/admin-guide/cgroup-v1/cpusets.rst, cgroups(7).
//!
//! In version 1 a new group is made below the target's. The cpuset hierarchy is separate there, so
//! only the target's CPUs change. In version 2 a group has all controllers, so moving a target to
//! another group would remove its limits. Therefore the target's own group is used if the target is
//! alone in it (a service), and a child group is made only at the root, which has no limits.
//!
//! A `cpuset.cpus` that was empty, as systemd leaves it, cannot be emptied again while processes
//! are in the group: `validate_change` of kernel/cgroup/cpuset.c refuses with `ENOSPC`. Setting it
//! to all possible CPUs has the same effect.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use numapilot_observe::Tree;
use numapilot_observe::thread_group::task_with_memory;
use numapilot_sys::affinity as masks;
use numapilot_topology::CpuSet;
use serde::{Deserialize, Serialize};

use super::groups::{
    PREFIX, Version, children_of, directories, file, file_error, group_of, has_children, has_ours,
    join, limits_cpus, numbers, path_of, processes, read, read_set, runs, write,
};
use super::{Notes, ONLINE, POSSIBLE, affinity};
use crate::CoresError;

/// Most rounds in which processes are moved; they may fork meanwhile.
const ROUNDS: u32 = 20;

/// A group whose CPUs are set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpuset {
    version: Version,
    /// The group whose CPUs are set.
    group: PathBuf,
    /// Where the target was: the parent of a group of ours, or the group itself.
    origin: PathBuf,
    /// Both groups as the kernel names them (`/proc/PID/cgroup`).
    paths: Paths,
    /// The original `cpuset.cpus` of a group that existed before.
    before: String,
    /// The last set in a group that existed before, preceded by the one before it until the change
    /// is complete.
    held: Vec<CpuSet>,
    /// Whether the controller was switched on for the group.
    enabled: bool,
}

/// Groups by their path in the hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Paths {
    group: String,
    origin: String,
}

impl Cpuset {
    /// Finds the target's group and checks whether it can be used.
    pub(super) fn plan(version: Version, root: i32, tree: &Tree) -> Result<Self, String> {
        let fail = |cause: &str| format!("{}: {cause}", version.name());
        let (origin, path) =
            group_of(version, root).ok_or_else(|| fail("no cpuset hierarchy is mounted"))?;
        if path.contains(PREFIX) {
            return Err(fail(
                "it is in a group of another numapilot cores (or one that was \
                             killed: numapilot restore)",
            ));
        }
        if has_own_affinity(tree, &origin, version) {
            return Err(fail(
                "threads have an affinity of their own, which a cpuset would override",
            ));
        }
        let writable = |path: PathBuf| {
            let file = OpenOptions::new().write(true).open(&path);
            file.map(drop).map_err(|error| fail(&format!("{}: {error}", path.display())))
        };
        let name = format!("{PREFIX}{root}-{}", std::process::id());
        let ours = |enabled| {
            let below = format!("{}/{name}", path.trim_end_matches('/'));
            let paths = Paths { group: below, origin: path.clone() };
            let (group, before, held) = (origin.join(&name), String::new(), Vec::new());
            Ok(Self { version, group, origin: origin.clone(), paths, before, held, enabled })
        };
        if version == Version::V1 {
            writable(origin.join("cgroup.procs"))?;
            return ours(false);
        }
        let controllers = fs::read_to_string(origin.join("cgroup.controllers"));
        let has = |text: &str| text.split_whitespace().any(|name| name == "cpuset");
        if !has(&controllers.unwrap_or_default()) {
            return Err(fail("the cpuset controller is not there"));
        }
        // Only the root has no type.
        if !origin.join("cgroup.type").exists() {
            writable(origin.join("cgroup.procs"))?;
            let subtree = origin.join("cgroup.subtree_control");
            let enabled = has(&fs::read_to_string(&subtree).unwrap_or_default());
            writable(subtree)?;
            return ours(!enabled);
        }
        let own = origin.join("cpuset.cpus");
        let members: Vec<i32> = tree.pids().collect();
        if !processes(&origin).iter().all(|pid| members.contains(pid)) || has_children(&origin) {
            return Err(fail(
                "other processes are in its group, whose limits it would lose elsewhere",
            ));
        }
        let before = fs::read_to_string(&own)
            .map_err(|error| fail(&format!("{}: {error}", own.display())))?;
        writable(own)?;
        let paths = Paths { group: path.clone(), origin: path };
        let before = before.trim().to_owned();
        let (group, held) = (origin.clone(), Vec::new());
        Ok(Self { version, group, origin, paths, before, held, enabled: false })
    }

    /// Makes the group and moves the target into it.
    pub(super) fn begin(&self, tree: &Tree) -> Result<(), CoresError> {
        if !self.is_ours() {
            return Ok(());
        }
        if self.enabled {
            write(&self.origin.join("cgroup.subtree_control"), "+cpuset")?;
        }
        fs::create_dir(&self.group).map_err(file("making the group", &self.group))?;
        if self.version == Version::V1 {
            for name in ["cpuset.mems", "cpuset.cpus"] {
                let text = read(&self.origin.join(name))?;
                write(&self.group.join(name), text.trim())?;
            }
        }
        self.enter(tree)
    }

    /// Moves the target's processes that are still in the original group.
    fn enter(&self, tree: &Tree) -> Result<(), CoresError> {
        let target = self.group.join("cgroup.procs");
        for _ in 0..ROUNDS {
            let mut moved = false;
            let mut all: Vec<i32> = tree.pids().collect();
            all.extend(children_of(&all));
            for pid in all {
                if self.is_in(pid, &self.paths.origin) {
                    moved |= join(&target, pid)?;
                }
            }
            if !moved {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_ours(&self) -> bool {
        self.group != self.origin
    }

    pub(super) fn describe(&self) -> String {
        format!("{}, {}", self.version.name(), self.group.display())
    }

    /// The CPUs of the parent group.
    pub(super) fn available(&self) -> Result<CpuSet, CoresError> {
        let above = read_set(&self.above())?;
        if self.is_ours() {
            return Ok(above);
        }
        let own = CpuSet::parse_list(&self.before).unwrap_or_default();
        Ok(if own.is_empty() { above } else { above.intersection(&own) })
    }

    /// The file with the CPUs of the parent group.
    fn above(&self) -> PathBuf {
        let effective = self.version.effective();
        if self.is_ours() {
            return self.origin.join(effective);
        }
        let above = self.origin.parent().map(|parent| parent.join(effective));
        above.filter(|path| path.exists()).unwrap_or_else(|| ONLINE.into())
    }

    /// The files that change when the parent's CPUs, the group's CPUs or the target's group change.
    pub(super) fn watched(&self, root: i32) -> [PathBuf; 3] {
        let own = self.group.join("cpuset.cpus");
        [self.above(), own, format!("/proc/{}/cgroup", task_with_memory(root)).into()]
    }

    fn is_in(&self, pid: i32, path: &str) -> bool {
        path_of(self.version, pid).is_some_and(|own| own == path)
    }

    /// Records which CPUs come next.
    pub(super) fn announce(&mut self, cpus: &CpuSet) {
        self.held.retain(|held| held != cpus);
        self.held.push(cpus.clone());
    }

    /// Whether numapilot wrote this text of `cpuset.cpus`.
    fn is_held(&self, text: &str) -> bool {
        CpuSet::parse_list(text).is_ok_and(|cpus| self.held.contains(&cpus))
    }

    /// Writes the CPUs unless they are in effect. A CPU that went offline may have changed that.
    pub(super) fn set(&mut self, root: i32, cpus: &CpuSet, tree: &Tree) -> Result<(), CoresError> {
        let moved = || CoresError::MovedAway { group: self.group.clone() };
        if !self.group.is_dir() {
            return Err(moved());
        }
        let file = self.group.join("cpuset.cpus");
        let text = read(&file)?;
        let text = text.trim();
        if !self.is_ours() && text != self.before && !self.is_held(text) {
            return Err(CoresError::SetByOthers { path: file, now: text.to_owned() });
        }
        let held = CpuSet::parse_list(text).unwrap_or_default();
        if held != *cpus {
            write(&file, &cpus.to_string())?;
        }
        self.held = vec![cpus.clone()];
        let is_in = |pid| self.is_in(pid, &self.paths.group);
        if is_in(root) || tree.pids().any(is_in) {
            return Ok(());
        }
        // A process that has ended is in no group.
        if !tree.pids().any(runs) {
            return Err(CoresError::Gone);
        }
        // cgroup v1: the last CPU of the group went offline, and the kernel moved its processes to
        // the parent.
        if held.is_empty() && self.is_ours() {
            return self.enter(tree);
        }
        Err(moved())
    }

    pub(super) fn put_back(&self) -> Result<Notes, CoresError> {
        let file = self.group.join("cpuset.cpus");
        if !self.is_ours() {
            // If the group or its controller is gone, so is the setting.
            return if file.exists() { self.put_back_own(&file) } else { Ok(Notes::new()) };
        }
        if self.group.is_dir() {
            self.leave()?;
        }
        self.disable()
    }

    /// Puts back a group that existed before, unless somebody else has changed it since.
    fn put_back_own(&self, file: &Path) -> Result<Notes, CoresError> {
        let now = read(file)?;
        let now = now.trim();
        if now == self.before {
            return Ok(Notes::new());
        }
        let path = file.display();
        if !self.is_held(now) {
            return Ok(vec![format!("{path} was set to '{now}' by somebody else: left as it is")]);
        }
        if !self.before.is_empty() {
            write(file, &self.before)?;
            return Ok(Notes::new());
        }
        match write(file, "\n") {
            Err(CoresError::File { source, .. }) if source.raw_os_error() == Some(libc::ENOSPC) => {
                let cpus = self.unlimited(file)?;
                Ok(vec![format!(
                    "the kernel does not let {path} be emptied while processes are in the group; \
                     it is set to {cpus} instead, which leaves it all CPUs of the group above"
                )])
            }
            written => written.map(|()| Notes::new()),
        }
    }

    /// Sets a group that the kernel does not let be emptied to a value with the same effect: all
    /// possible CPUs. If a neighbour has some of them to itself (a partition), it uses the CPUs
    /// that the parent group has now.
    fn unlimited(&self, file: &Path) -> Result<CpuSet, CoresError> {
        let above = self.above();
        let mut result = Ok(CpuSet::new());
        for source in [Path::new(POSSIBLE), &above] {
            let cpus = read_set(source)?;
            result = write(file, &cpus.to_string()).map(|()| cpus);
            // The CPUs in effect count, not those written.
            let effective = read_set(&self.group.join(self.version.effective()))?;
            if result.is_ok() && effective == read_set(&above)? {
                return result;
            }
        }
        let effective = self.group.join(self.version.effective());
        result.and_then(|_| {
            let cause = "its group has still fewer CPUs than the group above";
            Err(file_error("reading", &effective, io::Error::other(cause)))
        })
    }

    /// Moves the target back from a group of ours and removes the group.
    fn leave(&self) -> Result<(), CoresError> {
        let held = read_set(&self.group.join(self.version.effective())).unwrap_or_default();
        let origin = self.origin.join("cgroup.procs");
        let (mut moved, mut listed) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..ROUNDS {
            let left = processes(&self.group);
            if left.is_empty() {
                break;
            }
            listed.extend(self.threads());
            for pid in left {
                join(&origin, pid)?;
                moved.insert(pid);
            }
        }
        self.remove()?;
        let all = read_set(&self.origin.join(self.version.effective()))?;
        affinity::widen(&moved, &listed, &held, &all)
    }

    /// Threads in the group.
    fn threads(&self) -> Vec<i32> {
        let name = match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        numbers(&self.group.join(name))
    }

    /// Switches the controller off if it was off before and nobody else uses it by now.
    fn disable(&self) -> Result<Notes, CoresError> {
        if !self.enabled || has_ours(&self.origin) {
            return Ok(Notes::new());
        }
        let subtree = self.origin.join("cgroup.subtree_control");
        let note = || {
            let origin = self.origin.display();
            Ok(vec![format!("groups below {origin} use the cpuset controller by now: it stays on")])
        };
        if directories(&self.origin).any(|entry| limits_cpus(&entry.path())) {
            return note();
        }
        match write(&subtree, "-cpuset") {
            Err(CoresError::File { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => {
                note()
            }
            written => written.map(|()| Notes::new()),
        }
    }

    /// Removes the group. The kernel allows that once the last process has been reaped, which takes
    /// a moment.
    fn remove(&self) -> Result<(), CoresError> {
        let mut result = Ok(());
        for _ in 0..100 {
            result = fs::remove_dir(&self.group);
            match &result {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                _ => break,
            }
        }
        result.map_err(file("removing the group", &self.group))
    }

    pub(super) fn accounts(&self) -> Option<PathBuf> {
        let has_them = self.version == Version::V2 && self.group.join("cpu.stat").exists();
        has_them.then(|| self.group.clone())
    }
}

/// Whether any thread may use fewer CPUs than its group.
fn has_own_affinity(tree: &Tree, group: &Path, version: Version) -> bool {
    let Ok(all) = read_set(&group.join(version.effective())) else { return false };
    tree.threads().any(|tid| {
        masks::get(tid).is_ok_and(|words| CpuSet::from_words(&words).intersection(&all) != all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group that existed before, made of plain files.
    fn group(directory: &Path, before: &str, now: &str) -> Cpuset {
        fs::write(directory.join("cpuset.cpus"), now).unwrap();
        let path = "/a".to_owned();
        Cpuset {
            version: Version::V2,
            group: directory.to_owned(),
            origin: directory.to_owned(),
            paths: Paths { group: path.clone(), origin: path },
            before: before.to_owned(),
            held: vec![CpuSet::parse_list("0").unwrap()],
            enabled: false,
        }
    }

    #[test]
    fn what_somebody_else_set_stays_and_this_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let text = || fs::read_to_string(directory.path().join("cpuset.cpus")).unwrap();
        let mut changed = group(directory.path(), "0-3", "1-2\n");
        let error = changed
            .set(0, &CpuSet::parse_list("0").unwrap(), &Tree::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("was set to '1-2' by somebody else"), "{error}");
        let notes = changed.put_back().unwrap();
        assert!(notes[0].ends_with("left as it is"), "{notes:?}");
        assert_eq!(text(), "1-2\n");
        assert!(group(directory.path(), "0-3", "0\n").put_back().unwrap().is_empty());
        assert_eq!(text(), "0-3");
    }
}
