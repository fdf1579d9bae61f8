//! What a run left running: found by its process group, its session, and a variable
//! in its environment, which a server that has made itself a session of its own still has.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use numapilot_observe::thread_group::has_ended;
use procfs::process::Process;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Variable that marks the processes of a run.
pub const MARK: &str = "NUMAPILOT_TUNE_RUN";

/// How long what a successful run left may go on, to end by itself.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long it is waited for the end after SIGKILL.
const KILLED: Duration = Duration::from_secs(5);
/// Between looks.
const LOOK: Duration = Duration::from_millis(5);

/// Ends what is left after `patience` of a run whose program was process `leader` and had this
/// mark; names and process numbers of what was ended.
pub fn end(leader: i32, mark: &str, patience: Duration) -> Vec<String> {
    let patient_until = Instant::now() + patience;
    while Instant::now() < patient_until {
        if of_run(leader, mark).is_empty() {
            return Vec::new();
        }
        std::thread::sleep(LOOK);
    }
    let mut named: Vec<(i32, String)> = Vec::new();
    for (signal, limit) in [(Signal::TERM, GRACE), (Signal::KILL, KILLED)] {
        let deadline = Instant::now() + limit;
        let mut told: Vec<i32> = Vec::new();
        loop {
            let left = of_run(leader, mark);
            for (process, name) in &left {
                // One that is started meanwhile gets its signal too.
                if !told.contains(&process.pid) {
                    told.push(process.pid);
                    signal_process(process, signal);
                }
                if !named.iter().any(|(pid, _)| *pid == process.pid) {
                    named.push((process.pid, name.clone()));
                }
            }
            if left.is_empty() {
                return named.into_iter().map(|(pid, name)| format!("{name} ({pid})")).collect();
            }
            if Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    // What does not end by SIGKILL hangs in the kernel: it is named all the same.
    named.into_iter().map(|(pid, name)| format!("{name} ({pid})")).collect()
}

/// Processes of the run that are alive, with their names.
fn of_run(leader: i32, mark: &str) -> Vec<(Process, String)> {
    let Ok(processes) = procfs::process::all_processes() else { return Vec::new() };
    let own = std::process::id().cast_signed();
    let is_of_run = |process: Process| {
        let stat = process.stat().ok()?;
        if stat.pid == own || has_ended(&stat) {
            return None;
        }
        let by_number = stat.pgrp == leader || stat.session == leader;
        let is_marked = || {
            let environment = process.environ();
            environment.is_ok_and(|e| e.get(OsStr::new(MARK)).is_some_and(|m| m == mark))
        };
        (by_number || is_marked()).then_some((process, stat.comm))
    };
    processes.filter_map(Result::ok).filter_map(is_of_run).collect()
}

fn signal_process(process: &Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    // `process` holds its directory open: if that is still alive, the number is still its own.
    let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if process.stat().is_ok_and(|stat| !has_ended(&stat)) {
        // It may end by itself between the two calls.
        let _ = pidfd_send_signal(fd, signal);
    }
}
