//! The processes of a run, found in /proc: the program and what it starts.
//!
//! Source: proc_pid_stat(5), proc_pid_environ(5), proc_loadavg(5). The last field of /proc/loadavg
//! is the id that was given to the newest task, process or thread, of the whole machine: as long as
//! it stays, there is nothing new to look for.
//!
//! A process that forks twice to become a daemon loses its parent before anybody looks. It is known
//! by its environment, which names the occupancy table of the run.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use numapilot_bind::env::BIND_OCCUPANCY;
use numapilot_bind::occupancy::{Holds, holds};
use numapilot_observe::thread_group::task_with_memory;
use numapilot_sys::{affinity, process};
use numapilot_topology::CpuSet;

use super::obstacle::{LIBRARY, obstacle_of};
use super::pinner::Seen;
use crate::ancestors;

/// The living processes of a run.
#[derive(Debug)]
pub struct ProcessTree {
    members: HashMap<i32, Member>,
    strangers: HashSet<i32>,
    newest: Option<u32>,
    occupancy: Option<PathBuf>,
}

#[derive(Debug)]
struct Member {
    parent: i32,
    /// With the id the identity of a process.
    started: u64,
    image: Option<PathBuf>,
    placed_from: Side,
}

/// Which side places the threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Its loader has not come to the libraries yet.
    Unknown,
    /// The library that it carries.
    Inside,
    /// We.
    Outside,
}

impl Member {
    fn new(parent: i32, started: u64) -> Self {
        Self { parent, started, image: None, placed_from: Side::Unknown }
    }
}

impl ProcessTree {
    /// The process tree of a program that was just started and not waited for yet. The occupancy
    /// table tells who pins itself.
    pub fn new(program: i32, occupancy: Option<PathBuf>) -> Self {
        let started = start_time(program);
        Self {
            members: started.map(|s| (program, Member::new(0, s))).into_iter().collect(),
            strangers: HashSet::new(),
            newest: None,
            occupancy,
        }
    }

    /// Whether nobody is left.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether any task was created since the last call.
    pub fn has_news(&mut self) -> bool {
        let newest = fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| text.split_whitespace().last()?.parse().ok());
        if newest < self.newest {
            // Ids start again: those of strangers may be given to the run.
            self.strangers.clear();
        }
        newest != std::mem::replace(&mut self.newest, newest) || newest.is_none()
    }

    /// Removes those who have ended, adds children of members; the ended.
    pub fn update(&mut self) -> Vec<i32> {
        let ended: Vec<i32> = self
            .members
            .iter()
            .filter(|(pid, member)| start_time(**pid) != Some(member.started))
            .map(|(pid, _)| *pid)
            .collect();
        for pid in &ended {
            self.members.remove(pid);
        }
        let mut fresh: Vec<(i32, i32, u64)> = Vec::new();
        let mut present = HashSet::new();
        for pid in numbers("/proc") {
            if self.members.contains_key(&pid) {
                continue;
            }
            if self.strangers.contains(&pid) {
                present.insert(pid);
            } else if let Some((parent, started)) = parent_and_start(pid) {
                fresh.push((pid, parent, started));
            }
        }
        self.strangers = present;
        self.add_orphans(&mut fresh);
        // Children before grandchildren, whatever their numbers: until nobody is added.
        loop {
            let before = fresh.len();
            fresh.retain(|(pid, parent, started)| {
                let related = self.members.contains_key(parent);
                if related {
                    self.members.insert(*pid, Member::new(*parent, *started));
                }
                !related
            });
            if fresh.len() == before {
                break;
            }
        }
        self.strangers.extend(fresh.iter().map(|(pid, ..)| *pid));
        ended
    }

    /// Adds those of the run whose parents have ended: they are children of an ancestor now.
    fn add_orphans(&mut self, fresh: &mut Vec<(i32, i32, u64)>) {
        let Some(occupancy) = self.occupancy.as_deref().filter(|_| !fresh.is_empty()) else {
            return;
        };
        let this = std::process::id().cast_signed();
        // The first process of a PID namespace is not an ancestor of one that was put into it.
        let adopters = [ancestors(this), vec![this, 1]].concat();
        fresh.retain(|(pid, parent, started)| {
            if !adopters.contains(parent) || self.members.contains_key(parent) {
                return true;
            }
            match has_occupancy_table(*pid, occupancy) {
                Some(true) => {
                    self.members.insert(*pid, Member::new(*parent, *started));
                    false
                }
                Some(false) => true,
                // Not known yet: it is new at the next look, too.
                None => false,
            }
        });
    }

    /// Its members.
    pub fn processes(&self) -> Vec<i32> {
        self.members.keys().copied().collect()
    }

    /// The processes whose threads have to be placed from outside, each with its threads:
    /// those that neither carry the library nor were pinned by a program that does
    /// (`taskset`). A program that is still being loaded is left alone until it is known.
    pub fn in_need(&mut self) -> Vec<(i32, Vec<Seen>)> {
        let mut found = Vec::new();
        for (pid, member) in &mut self.members {
            let image = image(*pid);
            if member.placed_from == Side::Unknown || image != member.image {
                member.placed_from = side(*pid);
                member.image = image;
            }
            if member.placed_from == Side::Outside {
                found.push((*pid, member.parent, threads(*pid)));
            }
        }
        if found.is_empty() {
            return Vec::new();
        }
        // Read last: what pinned itself before it became one of these is in the occupancy table.
        let occupancy =
            self.occupancy.as_ref().and_then(|path| fs::read(path).ok()).unwrap_or_default();
        let pinned = |pid: i32| holds(&occupancy, pid.unsigned_abs()) == Some(Holds::ItsOwn);
        found.retain(|(pid, parent, _)| !pinned(*pid) && !pinned(*parent));
        found.into_iter().map(|(pid, _, threads)| (pid, threads)).collect()
    }
}

/// Whether a process was started with this occupancy table in its environment; `None` while it has
/// no environment, as in the middle of `execve`.
fn has_occupancy_table(pid: i32, occupancy: &Path) -> Option<bool> {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return Some(false) };
    let variable = [BIND_OCCUPANCY.as_bytes(), b"=", occupancy.as_os_str().as_bytes()].concat();
    let has_it = environment.split(|byte| *byte == 0).any(|entry| entry == variable);
    (!environment.is_empty()).then_some(has_it)
}

/// The file that a process executes.
fn image(pid: i32) -> Option<PathBuf> {
    let of_task = |task: i32| fs::read_link(format!("/proc/{task}/exe")).ok();
    of_task(pid).or_else(|| of_task(other_task(pid)?))
}

/// Another of its threads that has its memory, where its first one has ended.
fn other_task(pid: i32) -> Option<i32> {
    Some(task_with_memory(pid)).filter(|task| *task != pid)
}

/// Which side places the threads of a process, as far as its loader has come: preloaded
/// libraries are mapped before the C library.
fn side(pid: i32) -> Side {
    let is_first = fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    let task = if is_first { pid } else { other_task(pid).unwrap_or(pid) };
    if obstacle_of(Path::new(&format!("/proc/{task}/exe"))).is_some() {
        return Side::Outside;
    }
    // Not readable: another user's, which loads no library of ours.
    let Ok(maps) = fs::read(format!("/proc/{task}/maps")) else { return Side::Outside };
    let maps_file = |name: &str| maps.windows(name.len()).any(|window| window == name.as_bytes());
    if maps_file(LIBRARY) {
        Side::Inside
    } else if maps_file("/libc.so.6") || maps_file("/libc-") {
        Side::Outside
    } else {
        Side::Unknown
    }
}

fn threads(pid: i32) -> Vec<Seen> {
    let mut seen: Vec<Seen> = numbers(&format!("/proc/{pid}/task"))
        .filter_map(|tid| {
            let words = affinity::get(tid).ok()?;
            Some(Seen { tid, affinity: CpuSet::from_words(&words) })
        })
        .collect();
    // Creation order, as far as ids tell.
    seen.sort_by_key(|seen| (seen.tid != pid, seen.tid));
    seen
}

fn start_time(pid: i32) -> Option<u64> {
    process::start_time(u32::try_from(pid).ok()?).ok()
}

fn parent_and_start(pid: i32) -> Option<(i32, u64)> {
    let stat = procfs::process::Process::new(pid).ok()?.stat().ok()?;
    Some((stat.ppid, stat.starttime))
}

/// The entries of a directory whose names are numbers.
fn numbers(directory: &str) -> impl Iterator<Item = i32> + use<> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn children_join_and_the_dead_leave() {
        let mut shell = Command::new("sh").args(["-c", "sleep 600; true"]).spawn().unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let mut tree = ProcessTree::new(pid, None);
        assert!(tree.has_news());
        while tree.members.len() < 2 {
            tree.update();
        }
        let sleeper = *tree.members.keys().find(|member| **member != pid).unwrap();
        assert_eq!(parent_and_start(sleeper).unwrap().0, pid);
        while !tree.in_need().iter().any(|(member, _)| *member == sleeper) {}
        process::PidFd::open(sleeper).unwrap().signal(libc::SIGKILL).unwrap();
        shell.wait().unwrap();
        while !tree.is_empty() {
            tree.update();
        }
    }

    #[test]
    fn a_daemon_that_forked_twice_is_known_by_the_occupancy_table_of_its_run() {
        let directory = tempfile::tempdir().unwrap();
        let (occupancy, daemon) =
            (directory.path().join("occupancy"), directory.path().join("daemon"));
        // The process between has ended when the number is there.
        let script = "sh -c 'sleep 60 & echo $!' >\"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 60";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&daemon).env(BIND_OCCUPANCY, &occupancy);
        let mut root = command.stdout(Stdio::null()).spawn().unwrap();
        let pid = root.id().cast_signed();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !daemon.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let daemon: i32 = fs::read_to_string(daemon).unwrap().trim().parse().unwrap();
        let fd = process::PidFd::open(daemon).unwrap();
        let is_known = |occupancy: Option<&Path>, waits: bool| {
            let mut tree = ProcessTree::new(pid, occupancy.map(Path::to_owned));
            tree.update();
            while waits && !tree.members.contains_key(&daemon) && Instant::now() < deadline {
                tree.update();
            }
            tree.members.contains_key(&daemon)
        };
        let other = directory.path().join("other");
        let known = [
            is_known(Some(&occupancy), true),
            is_known(Some(&other), false),
            is_known(None, false),
        ];
        fd.signal(libc::SIGKILL).unwrap();
        root.kill().unwrap();
        root.wait().unwrap();
        assert_eq!(known, [true, false, false]);
    }

    /// The loader waits at a library that is a pipe.
    #[test]
    fn a_program_that_is_being_loaded_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("library.so");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut command = Command::new("sleep");
        let mut sleeper = command.arg("600").env("LD_PRELOAD", &pipe).spawn().unwrap();
        let pid = i32::try_from(sleeper.id()).unwrap();
        let mut tree = ProcessTree::new(pid, None);
        for _ in 0..100 {
            assert_eq!(tree.in_need(), []);
        }
        // Something that is no library: the loader says so and goes on.
        fs::write(&pipe, "nothing").unwrap();
        while tree.in_need().is_empty() {}
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn threads_are_listed_with_their_affinity() {
        let me = i32::try_from(std::process::id()).unwrap();
        let seen = threads(me);
        assert_eq!(seen[0].tid, me);
        assert!(seen.iter().all(|thread| !thread.affinity.is_empty()));
        assert_eq!(side(me), Side::Outside);
    }
}
