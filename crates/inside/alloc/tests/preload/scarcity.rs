//! Runs with limited memory, address space or system calls, or without `/sys`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Subject, installed};

const SOURCE: &str = "scarcity.c";

/// Runs a case through a command that executes its last arguments.
fn behind(wrapper: &[&OsStr], case: &str) {
    let subject = Subject::preloaded();
    let program = subject.compile(SOURCE);
    // Only the program gets the library, not the command in front of it.
    let preload = format!("LD_PRELOAD={}", subject.preload.unwrap().display());
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).args(["/usr/bin/env", &preload]).arg(&program).arg(case);
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        println!("skipped: {}", errors.trim());
        return;
    }
    assert!(output.status.success(), "{wrapper:?}: {:?} {stdout} {errors}", output.status);
}

fn in_shell(limit: &str, case: &str) {
    let script = format!("{limit}; exec \"$@\"");
    behind(&["sh", "-c", &script, "sh"].map(OsStr::new), case);
}

fn forbidding(error: i32, calls: &[&str], case: &str) {
    let launcher: PathBuf =
        Subject { name: "launcher", ..Subject::preloaded() }.compile("forbid.c");
    let error = error.to_string();
    let mut words: Vec<&OsStr> = vec![launcher.as_os_str(), OsStr::new(&error)];
    words.extend(calls.iter().map(OsStr::new));
    words.push(OsStr::new("--"));
    behind(&words, case);
}

#[test]
fn under_rlimit_as() {
    in_shell("ulimit -v 600000", "until_no_memory");
    in_shell("ulimit -v 600000", "until_no_memory_in_threads");
    in_shell("ulimit -v 300000", "works");
}

#[test]
fn under_rlimit_data() {
    in_shell("ulimit -d 600000", "until_no_memory");
    in_shell("ulimit -d 600000", "until_no_memory_in_threads");
    in_shell("ulimit -d 300000", "works");
    in_shell("ulimit -d 140000", "works");
}

#[test]
fn with_calls_forbidden() {
    for error in [libc::EPERM, libc::ENOSYS] {
        forbidding(error, &["mbind"], "works");
        forbidding(error, &["get_mempolicy"], "works");
        forbidding(error, &["mbind", "get_mempolicy", "getcpu", "rseq"], "works");
        forbidding(error, &["mremap"], "works");
        forbidding(error, &["madvise", "membarrier", "prctl", "sched_getaffinity"], "works");
    }
    forbidding(libc::ENOSYS, &["clone3"], "works");
}

#[test]
fn without_sys_and_proc() {
    if !installed("unshare") {
        return;
    }
    let hide = |directory: &str| format!("mount -t tmpfs none {directory}");
    let allowed = Command::new("unshare").args(["-m", "sh", "-c", &hide("/sys")]).output().unwrap();
    if !allowed.status.success() {
        println!("skipped: a mount namespace needs root");
        return;
    }
    for directory in ["/sys", "/proc"] {
        let script = format!("{}; exec \"$@\"", hide(directory));
        behind(&["unshare", "-m", "sh", "-c", &script, "sh"].map(OsStr::new), "works");
    }
    assert!(Path::new("/sys/devices").exists(), "hidden from everyone");
}

#[test]
fn on_one_cpu() {
    if installed("taskset") {
        behind(&["taskset", "-c", "0"].map(OsStr::new), "works");
    }
}
