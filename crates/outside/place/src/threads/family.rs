//! The processes of a run, found in /proc: the program and what it starts.
//!
//! Source: proc_pid_stat(5), proc_loadavg(5). The last field of /proc/loadavg is the id
//! that was given to the newest task, process or thread, of the whole machine: as long as
//! it stays, there is nothing new to look for.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use numapilot_bind::ledger::{Holds, holds};
use numapilot_sys::{affinity, process};
use numapilot_topology::CpuSet;

use super::LIBRARY;
use super::crew::Seen;

/// The living processes of a run.
#[derive(Debug)]
pub struct Family {
    members: HashMap<i32, Member>,
    strangers: HashSet<i32>,
    newest: Option<u32>,
    ledger: Option<PathBuf>,
}

#[derive(Debug)]
struct Member {
    parent: i32,
    /// With the id the identity of a process.
    started: u64,
    image: Option<PathBuf>,
    needs_us: bool,
}

impl Member {
    fn new(parent: i32, started: u64) -> Self {
        Self { parent, started, image: None, needs_us: true }
    }
}

impl Family {
    /// The family of a program that was just started and not waited for yet. The ledger
    /// tells who pins itself.
    pub fn new(program: i32, ledger: Option<PathBuf>) -> Self {
        let started = start_time(program);
        Self {
            members: started.map(|s| (program, Member::new(0, s))).into_iter().collect(),
            strangers: HashSet::new(),
            newest: None,
            ledger,
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
            // Ids start again: those of strangers may be given to the family.
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

    /// The processes whose threads have to be placed from outside, each with its threads:
    /// those that neither carry the library nor were pinned by a program that does
    /// (`taskset`). Before a program is loaded it does not carry the library, but has one
    /// thread, which is not placed.
    pub fn in_need(&mut self) -> Vec<(i32, Vec<Seen>)> {
        let ledger = self.ledger.as_ref().and_then(|path| fs::read(path).ok()).unwrap_or_default();
        let pinned = |pid: i32| holds(&ledger, pid.unsigned_abs()) == Some(Holds::ItsOwn);
        let mut found = Vec::new();
        for (pid, member) in &mut self.members {
            let image = fs::read_link(format!("/proc/{pid}/exe")).ok();
            if member.needs_us || image != member.image {
                member.needs_us = !carries_library(*pid) && !pinned(*pid) && !pinned(member.parent);
                member.image = image;
            }
            if member.needs_us {
                found.push((*pid, threads(*pid)));
            }
        }
        found
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

fn carries_library(pid: i32) -> bool {
    // Not readable: another user's, which loads no library of ours.
    fs::read(format!("/proc/{pid}/maps"))
        .is_ok_and(|maps| maps.windows(LIBRARY.len()).any(|window| window == LIBRARY.as_bytes()))
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
    use std::process::Command;

    use super::*;

    #[test]
    fn children_join_and_the_dead_leave() {
        let mut shell = Command::new("sh").args(["-c", "sleep 600; true"]).spawn().unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let mut family = Family::new(pid, None);
        assert!(family.has_news());
        while family.members.len() < 2 {
            family.update();
        }
        let sleeper = *family.members.keys().find(|member| **member != pid).unwrap();
        assert_eq!(parent_and_start(sleeper).unwrap().0, pid);
        assert!(family.in_need().iter().any(|(member, _)| *member == sleeper));
        process::PidFd::open(sleeper).unwrap().signal(libc::SIGKILL).unwrap();
        shell.wait().unwrap();
        while !family.is_empty() {
            family.update();
        }
    }

    #[test]
    fn threads_are_listed_with_their_affinity() {
        let me = i32::try_from(std::process::id()).unwrap();
        let seen = threads(me);
        assert_eq!(seen[0].tid, me);
        assert!(seen.iter().all(|thread| !thread.affinity.is_empty()));
        assert!(!carries_library(me));
    }
}
