//! Holds a target on its CPUs by the affinity of every thread, where no group can be written.
//!
//! Source: sched_setaffinity(2). A new thread inherits the affinity of its creator, so only threads
//! that are created during a change need watching. A thread whose affinity is neither the one that
//! the target came with nor one that was set here has been pinned by the program: it is left alone.
//!
//! sched_getaffinity(2) leaves out CPUs that are offline. In a cpuset other than the root cpuset,
//! the kernel also removes them from the affinity itself (Documentation/admin-guide/cgroup-v2.rst).
//! Therefore affinities are compared by the CPUs that a thread can use at the moment.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use numapilot_observe::Tree;
use numapilot_place::settings_journal::{Owner, State};
use numapilot_sys::affinity;
use numapilot_topology::CpuSet;
use serde::{Deserialize, Serialize};

use super::{ONLINE, POSSIBLE, groups};
use crate::CoresError;

/// Most passes over all threads, which may create others meanwhile.
const PASSES: u32 = 20;
/// Passes without a new thread after which all threads are taken as found.
const QUIET: u32 = 2;
/// Time between two passes: longer than the kernel takes to create a process.
const CREATION: Duration = Duration::from_millis(2);

/// The affinity that the threads had before, and the one that was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// Includes CPUs that are offline. It holds all possible CPUs if only the cpuset limited the
    /// target.
    before: CpuSet,
    /// The file with the CPUs of its cpuset.
    cpuset: PathBuf,
    /// The last set, preceded by the one before it until the change is complete.
    held: Vec<CpuSet>,
    /// The target's processes.
    members: Vec<Owner>,
    /// Threads that the program has pinned.
    pinned: BTreeSet<i32>,
}

impl Affinity {
    pub(super) fn plan(root: i32, tree: &Tree) -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| format!("affinity: {error}");
        let mask = affinity::get(root).map_err(|error| fail(&error))?;
        let mask = CpuSet::from_words(&mask);
        let read = |path: &str| groups::read_set(path.as_ref()).map_err(|error| fail(&error));
        let (file, is_first) =
            groups::bounds_of(root).unwrap_or_else(|| (PathBuf::from(ONLINE), true));
        let allowed = usable(&file).map_err(|error| fail(&error))?;
        let own = affinity_of(root).unwrap_or_else(|| mask.clone());
        // In the root cpuset the kernel keeps what was set. In others it narrows that to the CPUs
        // online: there, a thread that has all of them has no affinity of its own.
        let before = if !is_first && mask == allowed { read(POSSIBLE)? } else { own };
        // Setting the present affinity changes nothing and shows whether it may be set.
        affinity::set(root, before.as_words()).map_err(|error| fail(&error))?;
        let is_pinned = |tid: &i32| mask_of(*tid).is_some_and(|other| other != mask);
        let pinned = tree.threads().filter(is_pinned).collect();
        Ok(Self { before, cpuset: file, held: Vec::new(), members: Vec::new(), pinned })
    }

    /// CPUs that the target may use at the moment.
    pub(super) fn available(&self) -> Result<CpuSet, CoresError> {
        Ok(self.before.intersection(&usable(&self.cpuset)?))
    }

    /// The file that changes when [`Affinity::available`] does, in addition to the list of CPUs
    /// online.
    pub(super) fn watched(&self) -> PathBuf {
        self.cpuset.clone()
    }

    pub(super) fn announce(&mut self, cpus: &CpuSet, tree: &Tree) {
        self.held.retain(|held| held != cpus);
        self.held.push(cpus.clone());
        self.take_in(tree);
    }

    pub(super) fn take_in(&mut self, tree: &Tree) {
        if self.is_behind(tree) {
            self.members = numbers(tree).filter_map(|pid| Owner::of(pid).ok()).collect();
        }
    }

    /// Whether the target has processes that are not recorded.
    pub(super) fn is_behind(&self, tree: &Tree) -> bool {
        !numbers(tree).eq(self.members.iter().map(|member| member.pid))
    }

    /// Sets the CPUs. Returns the number of threads that the program has pinned.
    pub(super) fn set(&mut self, cpus: &CpuSet, tree: &Tree) -> Result<usize, CoresError> {
        let threads = || tree.threads().collect::<Vec<i32>>();
        let living: BTreeSet<i32> = threads().into_iter().collect();
        self.pinned.retain(|tid| living.contains(tid));
        let sets = self.held.iter().chain([&self.before]).collect();
        assign(threads, cpus, &mut self.pinned, Ours::of(sets, &self.cpuset)?)?;
        self.held = vec![cpus.clone()];
        Ok(self.pinned.len())
    }

    pub(super) fn put_back(&self) -> Result<(), CoresError> {
        let mut living = Vec::new();
        for member in &self.members {
            if matches!(member.state(), Ok(State::Alive)) {
                living.extend(i32::try_from(member.pid).ok());
            }
        }
        let ours = Ours::of(self.held.iter().collect(), &self.cpuset)?;
        let threads = || living.iter().flat_map(|pid| with_descendants(*pid)).collect();
        assign(threads, &self.before, &mut self.pinned.clone(), ours)
    }
}

/// The CPUs of a cpuset that are online. If its file is gone, because the target was moved or the
/// controller was switched off, all CPUs of the machine that are online.
fn usable(cpuset: &Path) -> Result<CpuSet, CoresError> {
    let online = groups::read_set(ONLINE.as_ref())?;
    Ok(groups::read_set(cpuset).map_or_else(|_| online.clone(), |own| own.intersection(&online)))
}

/// The CPUs that a thread may use, without those that are offline.
fn mask_of(tid: i32) -> Option<CpuSet> {
    affinity::get(tid).ok().map(|words| CpuSet::from_words(&words))
}

/// The affinity of a thread as it was set, including CPUs that are offline (proc_pid_status(5)).
fn affinity_of(tid: i32) -> Option<CpuSet> {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::parse_list(list.trim()).ok()
}

/// Process IDs in ascending order.
fn numbers(tree: &Tree) -> impl Iterator<Item = u32> + '_ {
    tree.pids().filter_map(|pid| u32::try_from(pid).ok())
}

/// Affinities that the program has not chosen, reduced to the CPUs that are online.
struct Ours<'a> {
    sets: Vec<&'a CpuSet>,
    cpuset: &'a Path,
    usable: CpuSet,
}

impl<'a> Ours<'a> {
    fn of(sets: Vec<&'a CpuSet>, cpuset: &'a Path) -> Result<Self, CoresError> {
        Ok(Self { sets, cpuset, usable: usable(cpuset)? })
    }

    fn has(&self, mask: &CpuSet) -> bool {
        self.sets.iter().any(|set| match set.intersection(&self.usable) {
            // A thread that has lost all its CPUs gets all CPUs of its cpuset.
            set if set.is_empty() => *mask == self.usable,
            set => *mask == set,
        })
    }

    /// Whether the affinity of a thread is one of them.
    ///
    /// While a CPU goes offline, the kernel removes it from what a thread may use before it removes
    /// it from the lists of CPUs (`_cpu_down` of kernel/cpu.c). In between, the affinity that was
    /// set looks different. If the lists have changed meanwhile, everything is compared again.
    fn is_affinity_of(&mut self, tid: i32) -> Result<bool, CoresError> {
        for _ in 0..PASSES {
            let Some(mask) = mask_of(tid) else { return Ok(true) };
            let is_as_set = |own: CpuSet| self.sets.iter().any(|set| **set == own);
            if self.has(&mask) || affinity_of(tid).is_some_and(is_as_set) {
                return Ok(true);
            }
            let before = std::mem::replace(&mut self.usable, usable(self.cpuset)?);
            if before == self.usable {
                break;
            }
        }
        Ok(false)
    }
}

/// Sets the affinity of all threads except pinned ones, and notes threads that have become pinned.
/// Every thread is set once, even if it seems to have the affinity already: CPUs that are offline
/// cannot be seen.
fn assign(
    threads: impl Fn() -> Vec<i32>,
    cpus: &CpuSet,
    pinned: &mut BTreeSet<i32>,
    mut ours: Ours<'_>,
) -> Result<(), CoresError> {
    let mut done = BTreeSet::new();
    for _ in 0..PASSES {
        let mut changed = false;
        for tid in threads() {
            if pinned.contains(&tid) || done.contains(&tid) {
                continue;
            }
            if !ours.is_affinity_of(tid)? {
                pinned.insert(tid);
                continue;
            }
            match affinity::set(tid, cpus.as_words()) {
                Ok(()) => changed = done.insert(tid),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(source) => return Err(CoresError::Affinity { tid, source }),
            }
        }
        if !changed {
            break;
        }
    }
    Ok(())
}

/// Gives CPUs to threads that a group of ours has left behind. A child that is being created is not
/// listed in its parent's group yet. It has the CPUs that its parent had before, and the kernel
/// does not correct them if the parent was moved to the root cpuset meanwhile (`cpuset_fork` of
/// kernel/cgroup/cpuset.c).
///
/// Such a thread descends from those that were `moved`, was not `listed` in the group, and has
/// exactly the group's CPUs (`held`), which its creator no longer has.
pub(super) fn widen(
    moved: &BTreeSet<i32>,
    listed: &BTreeSet<i32>,
    held: &CpuSet,
    all: &CpuSet,
) -> Result<(), CoresError> {
    if held.is_empty() || held == all {
        return Ok(());
    }
    let mut tree = moved.clone();
    let mut quiet = 0;
    for _ in 0..PASSES {
        let members: Vec<i32> = tree.iter().copied().collect();
        let known = tree.len();
        tree.extend(groups::children_of(&members));
        let mut changed = tree.len() > known;
        for &pid in &tree {
            for tid in threads_of(pid) {
                let creator = if tid == pid { parent_of(pid) } else { Some(pid) };
                let is_left_behind = !listed.contains(&tid)
                    && mask_of(tid).as_ref() == Some(held)
                    && creator.and_then(mask_of).as_ref() != Some(held);
                if is_left_behind {
                    match affinity::set(tid, all.as_words()) {
                        Ok(()) => changed = true,
                        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                        Err(source) => return Err(CoresError::Affinity { tid, source }),
                    }
                }
            }
        }
        // A process that is being created takes a moment to become visible.
        quiet = if changed { 0 } else { quiet + 1 };
        if quiet == QUIET {
            break;
        }
        std::thread::sleep(CREATION);
    }
    Ok(())
}

fn threads_of(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    procfs::process::Process::new(pid).ok()?.stat().ok().map(|stat| stat.ppid)
}

/// Threads of a process and of all its descendants.
fn with_descendants(pid: i32) -> Vec<i32> {
    let Ok(tree) = Tree::of(&[pid]) else { return Vec::new() };
    tree.threads().collect()
}

/// Threads of a target that may use only a part of these CPUs.
pub(super) fn pinned(tree: &Tree, cpus: &CpuSet) -> usize {
    let is_pinned =
        |tid: &i32| mask_of(*tid).is_some_and(|mask| mask != *cpus && mask.is_subset(cpus));
    tree.threads().filter(is_pinned).count()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn set(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    #[test]
    fn affinities_are_compared_by_the_cpus_there_are() {
        let (held, only) = (set("0-1"), set("1"));
        let ours =
            |usable: &str| Ours { sets: vec![&held], cpuset: ONLINE.as_ref(), usable: set(usable) };
        assert!(ours("0-7").has(&set("0-1")) && !ours("0-7").has(&set("0")));
        // CPU 1 is offline.
        assert!(ours("0,2-7").has(&set("0")) && !ours("0,2-7").has(&set("2")));
        let gone = Ours { sets: vec![&only], cpuset: ONLINE.as_ref(), usable: set("0,2") };
        assert!(gone.has(&set("0,2")) && !gone.has(&set("0")));
    }

    #[test]
    fn what_was_set_is_known_while_a_cpu_goes() {
        let me = std::process::id().cast_signed();
        let own = affinity_of(me).unwrap();
        // The list and the mask differ for a moment; in this test they differ permanently.
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = own.iter().next().unwrap().0.to_string();
        fs::write(file.path(), &first).unwrap();
        let mut ours = Ours::of(vec![&own], file.path()).unwrap();
        assert!(ours.is_affinity_of(me).unwrap());
        if own.len() > 1 {
            let other = set(&first);
            assert!(!Ours::of(vec![&other], file.path()).unwrap().is_affinity_of(me).unwrap());
        }
    }

    /// A shell and its child, which end with the test.
    struct ProcessTree {
        shell: Child,
        child: i32,
    }

    impl ProcessTree {
        fn start() -> Self {
            let mut shell = Command::new("sh")
                .args(["-c", "exec 3<&0; cat <&3 & echo $!; wait"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
            Self { shell, child: line.trim().parse().unwrap() }
        }

        fn pid(&self) -> i32 {
            self.shell.id().cast_signed()
        }
    }

    impl Drop for ProcessTree {
        fn drop(&mut self) {
            // The end of its input ends the child, which ends the shell.
            drop(self.shell.stdin.take());
            let _ = self.shell.wait();
        }
    }

    #[test]
    fn a_child_that_a_group_left_behind_gets_the_cpus_of_its_creator() {
        let all = mask_of(0).unwrap();
        let one: CpuSet = all.first().into_iter().collect();
        if all == one {
            println!("skipped: one CPU");
            return;
        }
        let tree = ProcessTree::start();
        let (moved, none) = (BTreeSet::from([tree.pid()]), BTreeSet::new());
        let mask = || mask_of(tree.child).unwrap();
        affinity::set(tree.child, one.as_words()).unwrap();
        // A thread that was moved with the group has its affinity from the program.
        widen(&moved, &BTreeSet::from([tree.child]), &one, &all).unwrap();
        assert_eq!(mask(), one);
        // So does a child whose parent has the same affinity.
        affinity::set(tree.pid(), one.as_words()).unwrap();
        widen(&moved, &BTreeSet::from([tree.pid()]), &one, &all).unwrap();
        assert_eq!(mask(), one);
        affinity::set(tree.pid(), all.as_words()).unwrap();
        widen(&moved, &none, &one, &all).unwrap();
        assert_eq!(mask(), all);
    }
}
