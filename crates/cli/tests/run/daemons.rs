//! Tests of the daemons that a plan runs beside the program.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use numapilot_test_kit::wait_until;

use crate::{NUMAPILOT, err, failure, out, run};

/// Daemons of two programs would divide the cores between them.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The processes of `numapilot cores` for this one.
fn daemons_of(pid: u32) -> Vec<u32> {
    let wanted = format!("cores\0-p\0{pid}\0");
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|daemon: &u32| {
            let line = fs::read(format!("/proc/{daemon}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).ends_with(&wanted)
        })
        .collect()
}

fn memory_nodes() -> usize {
    numapilot_topology::read("/".as_ref()).unwrap().memory_nodes().len()
}

#[test]
fn a_daemon_runs_for_as_long_as_the_program() {
    let _alone = alone();
    let script = "sleep 5; cat /proc/*/cmdline | tr '\\0' ' ' | grep -o 'cores -p '$$' '; exit 7";
    let output = run(&["--daemons", "cores", "-v", "--strict", "--", "sh", "-c", script]);
    let stderr = err(&output);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("cores -p "), "{stderr}");
    assert!(stderr.contains("daemons cores: in effect (process "), "{stderr}");
    // Without -v, a daemon in effect is not mentioned.
    let quiet = run(&["--daemons", "cores", "--", "sleep", "0.3"]);
    assert_eq!((quiet.status.code(), err(&quiet).as_str()), (Some(0), ""));
    assert_eq!(out(&["--daemons", "cores", "--", "echo", "short"]), "short\n");
}

#[test]
fn a_daemon_outlives_numapilot_and_ends_with_the_program() {
    let _alone = alone();
    let mut running = Command::new(NUMAPILOT)
        .args(["run", "--daemons", "cores", "--", "sleep", "600"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    let program = || -> Option<u32> {
        let text = fs::read_to_string(&children).unwrap_or_default();
        text.split_whitespace().next()?.parse().ok()
    };
    wait_until("the program does not run", || program().is_some());
    let pid = program().unwrap();
    wait_until("the daemon does not run", || !daemons_of(pid).is_empty());
    // The program goes on without numapilot, as with every plan.
    running.kill().unwrap();
    running.wait().unwrap();
    // A copy of the daemon lives for a moment, until it executes its guard.
    wait_until("the daemon has ended", || daemons_of(pid).len() == 1);
    assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
    wait_until("the daemon goes on", || daemons_of(pid).is_empty());
}

#[test]
fn what_a_daemon_cannot_do_is_reported_before_the_start() {
    if memory_nodes() < 2 {
        let why = "daemons balance: this machine has one node with memory: there is nothing to \
                   balance; leave it out on this machine";
        let output = run(&["--daemons", "balance", "echo", "ran"]);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"ran\n"[..]));
        assert!(err(&output).contains(why), "{}", err(&output));
        assert!(failure(&["--strict", "--daemons", "balance", "true"]).contains(why));
    }
    let both = failure(&["--strict", "--daemons", "cores", "--threads", "sparse", "true"]);
    assert!(both.contains("both decide on which CPUs a thread runs"), "{both}");
    assert!(failure(&["--daemons", "cpus", "true"]).contains("balance+cores"));
}

#[test]
fn a_daemon_that_fails_is_reported() {
    let _alone = alone();
    // The program is managed already.
    let script = "rm -f messages; $0 cores -v -p $$ 2> messages & \
                  until grep -qs begins messages; do sleep 0.05; done; \
                  $0 run $1 --daemons cores -- sleep 2; status=$?; kill $!; exit $status";
    let directory = tempfile::tempdir().unwrap();
    let run = |option: &str| {
        let mut shell = Command::new("sh");
        shell.current_dir(&directory).args(["-c", script, NUMAPILOT, option]).output().unwrap()
    };
    let why = "numapilot cores ended before the program: process ";
    let output = run("-v");
    let stderr = err(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains(why) && stderr.contains("is under numapilot cores already"),
        "{stderr}"
    );
    let strict = run("--strict");
    assert_eq!(strict.status.code(), Some(125), "{}", err(&strict));
    assert!(err(&strict).contains(why), "{}", err(&strict));
}

#[test]
fn a_daemon_that_is_ended_by_a_signal_is_reported() {
    let _alone = alone();
    // grep fails for a process that has ended meanwhile, also where it finds another one.
    let script = "until [ -s found ]; do sleep 0.05; \
                  grep -lzx $$ $(grep -lzx cores /proc/[0-9]*/cmdline) > found; done 2> errors; \
                  sleep 0.5; kill $(sed 's/[^0-9]//g' found); sleep 0.5";
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(NUMAPILOT)
        .current_dir(&directory)
        .args(["run", "--strict", "--daemons", "cores", "--", "sh", "-c", script])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    assert!(err(&output).contains("cores ended before the program: process "), "{}", err(&output));
}

#[test]
fn a_dry_run_names_the_daemons() {
    let text = out(&["--dry-run", "--daemons", "cores", "true"]);
    assert_eq!(text, "# beside it, until it ends: numapilot cores -p PID\ntrue\n");
}
