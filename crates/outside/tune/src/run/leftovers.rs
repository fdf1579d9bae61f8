//! Finds what a run left running: by its process group, its session, and a variable in its
//! environment, which a server that has made its own session still has. If this process [adopts
//! orphans](prctl::adopt_orphans), it also finds processes that have cleared their environment:
//! they are descendants of this process, and were not before the run.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use numapilot_observe::orphans;
use numapilot_observe::thread_group::has_ended;
use numapilot_place::Running;
use numapilot_place::guard::{self, GroupNote};
use numapilot_sys::{prctl, process};
use procfs::process::{Process, Stat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Time that processes left by a successful run have to end by themselves.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Longest wait after SIGKILL.
const KILLED: Duration = Duration::from_secs(5);
/// Time between two checks.
const LOOK: Duration = Duration::from_millis(5);

/// The processes of one run.
#[derive(Debug)]
pub struct Leftovers {
    /// The values of the variable in their environment: one for each program of the run.
    marks: Vec<String>,
    /// Process numbers of the programs that have started, and so of their groups.
    leaders: Vec<i32>,
    /// Make the guard end them if this process is killed first.
    notes: Vec<Arc<GroupNote>>,
    /// Descendants of this process that existed before, by number and start; `None` if orphans do
    /// not become children of this process.
    before: Option<HashSet<(i32, u64)>>,
    /// A program that runs on, and is waited for elsewhere.
    beside: Option<i32>,
}

impl Leftovers {
    /// The processes of a run with these marks that is about to start.
    pub fn before(marks: Vec<String>) -> Self {
        let before = prctl::adopts_orphans().then(|| {
            let all = Processes::now();
            let below = all.0.values().filter(|(_, stat)| all.are_below(stat, &HashSet::new()));
            below.map(|(_, stat)| identity(stat)).collect()
        });
        Self { marks, leaders: Vec::new(), notes: Vec::new(), before, beside: None }
    }

    /// As [`Leftovers::before`], beside a program that runs on.
    pub fn beside(marks: Vec<String>, program: &Running) -> Self {
        Self { beside: Some(program.pid()), ..Self::before(marks) }
    }

    /// Records the process of a program.
    pub fn started(&mut self, program: &Running) {
        self.leaders.push(program.pid());
        self.notes.extend(program.group_note());
    }

    /// Whether a process other than the programs themselves is alive, and still is after
    /// [`PATIENCE`].
    pub fn go_on(&self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let is_other = |(process, _): &(Process, String)| !self.leaders.contains(&process.pid);
        while self.alive().iter().any(is_other) {
            if Instant::now() >= deadline {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    /// Ends what is left after `patience`. To be called after the programs themselves were waited
    /// for.
    pub fn end(self, patience: Duration) -> Ended {
        let processes = self.end_all(patience);
        if let Some(before) = &self.before {
            reap_orphans(before, self.beside);
        }
        Ended { processes, peak_rss_bytes: orphans::take_peak_rss_bytes() }
    }

    fn end_all(&self, patience: Duration) -> Vec<String> {
        let patient_until = Instant::now() + patience;
        while Instant::now() < patient_until {
            if self.alive().is_empty() {
                return Vec::new();
            }
            std::thread::sleep(LOOK);
        }
        let mut named: Vec<(i32, String)> = Vec::new();
        for (signal, limit) in [(Signal::TERM, GRACE), (Signal::KILL, KILLED)] {
            let deadline = Instant::now() + limit;
            let mut signalled: Vec<i32> = Vec::new();
            loop {
                let left = self.alive();
                for (process, name) in &left {
                    // A process that is started meanwhile gets the signal too.
                    if !signalled.contains(&process.pid) {
                        signalled.push(process.pid);
                        signal_process(process, signal);
                    }
                    if !named.iter().any(|(pid, _)| *pid == process.pid) {
                        named.push((process.pid, name.clone()));
                    }
                }
                if left.is_empty() {
                    return named
                        .into_iter()
                        .map(|(pid, name)| format!("{name} ({pid})"))
                        .collect();
                }
                if Instant::now() >= deadline {
                    break;
                }
                std::thread::sleep(LOOK);
            }
        }
        // A process that does not end by SIGKILL hangs in the kernel; it is named nevertheless.
        named.into_iter().map(|(pid, name)| format!("{name} ({pid})")).collect()
    }

    /// Processes of the run that are alive, with their names.
    fn alive(&self) -> Vec<(Process, String)> {
        let all = Processes::now();
        let own = std::process::id().cast_signed();
        let is_of_run = |process: &Process, stat: &Stat| {
            if stat.pid == own || has_ended(stat) {
                return false;
            }
            let by_number =
                self.leaders.iter().any(|leader| [stat.pgrp, stat.session].contains(leader));
            by_number
                || match mark(process) {
                    Some(mark) => self.marks.iter().any(|own| mark == **own),
                    None => self.before.as_ref().is_some_and(|before| all.are_below(stat, before)),
                }
        };
        let left: HashSet<i32> =
            all.0.values().filter(|(p, stat)| is_of_run(p, stat)).map(|(p, _)| p.pid).collect();
        let left = all.0.into_values().filter(|(process, _)| left.contains(&process.pid));
        left.map(|(process, stat)| (process, stat.comm)).collect()
    }
}

/// The processes of a program's group that are alive.
pub fn group_of(program: &Running) -> Vec<Process> {
    let group = program.pid();
    let all = Processes::now().0.into_values();
    all.filter(|(_, stat)| stat.pgrp == group && !has_ended(stat)).map(|(p, _)| p).collect()
}

/// The processes that were left.
#[derive(Debug)]
pub struct Ended {
    /// Names and numbers of the processes that had to be ended.
    pub processes: Vec<String>,
    /// The highest peak of resident memory of an orphan, including those that ended by themselves.
    pub peak_rss_bytes: u64,
}

/// The processes of the machine by number.
struct Processes(HashMap<i32, (Process, Stat)>);

impl Processes {
    fn now() -> Self {
        let all = procfs::process::all_processes().into_iter().flatten().flatten();
        let known = |process: Process| process.stat().ok().map(|stat| (stat.pid, (process, stat)));
        Self(all.filter_map(known).collect())
    }

    /// Whether a process descends from this one, and neither it nor one in between is one of
    /// `others`.
    fn are_below(&self, stat: &Stat, others: &HashSet<(i32, u64)>) -> bool {
        let own = std::process::id().cast_signed();
        let mut at = stat;
        // Numbers are read one after the other, so reused ones could form a circle.
        for _ in 0..self.0.len() {
            if others.contains(&identity(at)) {
                return false;
            }
            if at.ppid == own {
                return true;
            }
            let Some((_, parent)) = self.0.get(&at.ppid) else { return false };
            at = parent;
        }
        false
    }
}

fn identity(stat: &Stat) -> (i32, u64) {
    (stat.pid, stat.starttime)
}

/// The mark that a process was started with.
fn mark(process: &Process) -> Option<OsString> {
    process.environ().ok()?.remove(OsStr::new(guard::RUN))
}

/// Waits for the orphans that have ended, which nothing else does. The usage of `others` does not
/// belong to the run. The program `beside` it is no orphan.
fn reap_orphans(others: &HashSet<(i32, u64)>, beside: Option<i32>) {
    let own = std::process::id().cast_signed();
    for (_, stat) in Processes::now().0.into_values() {
        if stat.ppid != own || !has_ended(&stat) || beside == Some(stat.pid) {
            continue;
        }
        if others.contains(&identity(&stat)) {
            let _ = process::reap(stat.pid);
        } else {
            orphans::reap_orphan(stat.pid);
        }
    }
}

/// Signals a process, unless it has ended.
pub fn signal_process(process: &Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    // `process` holds its directory open: if it is still alive, the number is still its own.
    let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if process.stat().is_ok_and(|stat| !has_ended(&stat)) {
        // It may end by itself between the two calls.
        let _ = pidfd_send_signal(fd, signal);
    }
}
