//! The processes of a run whose threads have to be placed from outside.
//!
//! A daemon that forks twice loses its parent before it is found. It is known by the variable in its
//! environment that names the occupancy table of the run.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use numapilot_bind::env::BIND_OCCUPANCY;
use numapilot_bind::occupancy::{Holds, holds};
use numapilot_observe::thread_group::task_with_memory;
use numapilot_observe::{Orphans, Tree};
use numapilot_sys::affinity;
use numapilot_topology::CpuSet;

use super::obstacle::{LIBRARY, Obstacle, obstacle_of};
use super::pinner::Seen;

/// The running processes of a run, and which side places the threads of each.
#[derive(Debug)]
pub struct OutsideProcesses {
    tree: Tree,
    known: HashMap<i32, Known>,
    occupancy: Option<PathBuf>,
    /// Whether copies of a process are recognised.
    knows_copies: bool,
}

/// A process whose threads have to be placed.
#[derive(Debug, PartialEq, Eq)]
pub struct ToPlace {
    /// Its number.
    pub pid: i32,
    /// The program that it executes, if that is known.
    pub program: Option<PathBuf>,
    /// Why the library does not place its threads.
    pub obstacle: Obstacle,
    /// Its threads.
    pub threads: Vec<Seen>,
    /// Whether it executes the program of its parent, so that it will not count its CPUs.
    pub is_copy: bool,
}

#[derive(Debug)]
struct Known {
    /// The parent when the process was found. An orphan gets another one.
    parent: i32,
    image: Option<PathBuf>,
    placed_from: Side,
}

/// The side that places the threads of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    /// Not known yet: its loader has not loaded the libraries.
    Unknown,
    /// The preloaded library.
    Inside,
    /// This process, because of this obstacle.
    Outside(Obstacle),
}

impl OutsideProcesses {
    /// The processes of a program that was just started and not waited for yet. The occupancy table
    /// tells which processes pin themselves.
    pub fn new(program: i32, occupancy: Option<PathBuf>) -> Self {
        let orphans = occupancy
            .as_ref()
            .map_or(Orphans::Ignored, |path| Orphans::marked(BIND_OCCUPANCY, path.as_os_str()));
        let tree = Tree::of_child_with(program, orphans);
        Self { tree, known: HashMap::new(), occupancy, knows_copies: false }
    }

    /// The processes of a program that runs without the library. Copies of a process (fork without
    /// exec, as PostgreSQL's for each connection) are placed like threads, as the library does.
    pub fn of_running(program: i32, orphans: Orphans) -> Self {
        let tree = Tree::of_child_with(program, orphans);
        Self { tree, known: HashMap::new(), occupancy: None, knows_copies: true }
    }

    /// Whether any process was running at the last look.
    pub fn runs(&self) -> bool {
        self.tree.runs()
    }

    /// Whether a process or thread was created on this machine since the last look.
    pub fn has_new_tasks(&self) -> bool {
        self.tree.has_new_tasks()
    }

    /// Updates the processes. Returns those that have ended since the last look.
    pub fn refresh(&mut self) -> Vec<i32> {
        let ended = self.tree.refresh();
        for pid in &ended {
            self.known.remove(pid);
        }
        ended
    }

    /// The processes whose threads have to be placed from outside, each with its threads. A process
    /// is left out if it has the library, if it or its parent pins itself while it has the library
    /// (`taskset`), or if it is still being loaded.
    pub fn threads_to_place(&mut self) -> Vec<ToPlace> {
        let mut found = Vec::new();
        for (pid, parent) in self.tree.running_with_parents() {
            let image = image(pid);
            let known = self.known.entry(pid).or_insert_with(|| Known {
                parent,
                image: None,
                placed_from: Side::Unknown,
            });
            if known.placed_from == Side::Unknown || image != known.image {
                known.placed_from = side(pid);
                known.image = image;
            }
            if let Side::Outside(obstacle) = &known.placed_from {
                let to_place = ToPlace {
                    pid,
                    program: known.image.clone(),
                    obstacle: obstacle.clone(),
                    threads: threads(pid),
                    is_copy: false,
                };
                found.push((known.parent, to_place));
            }
        }
        if self.knows_copies {
            let image = |pid: i32| self.known.get(&pid).and_then(|known| known.image.as_ref());
            for (parent, process) in &mut found {
                process.is_copy =
                    image(process.pid).is_some() && image(process.pid) == image(*parent);
            }
        }
        if found.is_empty() {
            return Vec::new();
        }
        // Read last: a process that pinned itself before it executed another program is in it.
        let occupancy =
            self.occupancy.as_ref().and_then(|path| fs::read(path).ok()).unwrap_or_default();
        let pinned = |pid: i32| holds(&occupancy, pid.unsigned_abs()) == Some(Holds::ItsOwn);
        found.retain(|(parent, process)| !pinned(process.pid) && !pinned(*parent));
        found.into_iter().map(|(_, process)| process).collect()
    }
}

/// The file that a process executes.
fn image(pid: i32) -> Option<PathBuf> {
    let of_task = |task: i32| fs::read_link(format!("/proc/{task}/exe")).ok();
    of_task(pid).or_else(|| of_task(other_task(pid)?))
}

/// Another thread of a process, through which its memory is accessible if its first one has ended.
fn other_task(pid: i32) -> Option<i32> {
    Some(task_with_memory(pid)).filter(|task| *task != pid)
}

/// The side that places the threads of a process. The loader maps preloaded libraries before the C
/// library.
fn side(pid: i32) -> Side {
    let is_first = fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    let task = if is_first { pid } else { other_task(pid).unwrap_or(pid) };
    let Ok(maps) = fs::read(format!("/proc/{task}/maps")) else {
        return Side::Outside(Obstacle::OtherUser);
    };
    if let Some(obstacle) = obstacle_of(Path::new(&format!("/proc/{task}/exe"))) {
        return Side::Outside(obstacle);
    }
    let maps_file = |name: &str| maps.windows(name.len()).any(|window| window == name.as_bytes());
    if maps_file(LIBRARY) {
        Side::Inside
    } else if maps_file("/libc.so.6") || maps_file("/libc-") {
        Side::Outside(Obstacle::NotLoaded)
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
    // In the order of creation, as far as the ids show it.
    seen.sort_by_key(|seen| (seen.tid != pid, seen.tid));
    seen
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
    use std::process::Command;

    use numapilot_sys::process::PidFd;
    use numapilot_test_kit::wait_until;

    use super::*;

    #[test]
    fn a_child_of_the_program_needs_placing() {
        let mut shell = Command::new("sh").args(["-c", "sleep 600; true"]).spawn().unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let mut processes = OutsideProcesses::new(pid, None);
        let mut sleeper = None;
        wait_until("the child does not need placing", || {
            processes.refresh();
            sleeper =
                processes.threads_to_place().iter().map(|process| process.pid).find(|m| *m != pid);
            sleeper.is_some()
        });
        let sleeper = sleeper.unwrap();
        assert_eq!(processes.known[&sleeper].parent, pid);
        PidFd::open(sleeper).unwrap().signal(libc::SIGKILL).unwrap();
        shell.wait().unwrap();
        processes.refresh();
        assert!(
            !processes.runs()
                && processes.known.is_empty()
                && processes.threads_to_place().is_empty()
        );
    }

    /// The loader waits for data from a library that is a pipe.
    #[test]
    fn a_program_that_is_being_loaded_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("library.so");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut command = Command::new("sleep");
        let mut sleeper = command.arg("600").env("LD_PRELOAD", &pipe).spawn().unwrap();
        let pid = i32::try_from(sleeper.id()).unwrap();
        let mut processes = OutsideProcesses::new(pid, None);
        for _ in 0..100 {
            assert_eq!(processes.threads_to_place(), []);
        }
        // This is not a library. The loader reports that and continues.
        fs::write(&pipe, "nothing").unwrap();
        wait_until("the loaded program does not need placing", || {
            !processes.threads_to_place().is_empty()
        });
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn threads_are_listed_with_their_affinity() {
        let me = i32::try_from(std::process::id()).unwrap();
        let seen = threads(me);
        assert_eq!(seen[0].tid, me);
        assert!(seen.iter().all(|thread| !thread.affinity.is_empty()));
        assert_eq!(side(me), Side::Outside(Obstacle::NotLoaded));
    }
}
