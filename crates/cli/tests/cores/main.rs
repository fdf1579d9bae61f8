//! Tests of `numapilot cores` as a user runs it: every way to hold a target that works on this
//! machine, and that the target is put back afterwards. cgroup v2 is tested on an emulated machine
//! (`lab/cores.rs`).

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod command;
mod holding;
mod others;
#[path = "../programs/mod.rs"]
mod programs;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use numapilot_test_kit::wait_until;
use programs::{NUMAPILOT, err};

/// Time limit of a command, far above what it needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn cores(arguments: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::cargo_bin("numapilot").unwrap();
    // A target that should be refused would be held without end.
    command.arg("cores").args(arguments).timeout(LIMIT);
    command
}

/// Tests run one at a time, because no core may belong to two targets.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A target that is ended when this is dropped.
struct Target(Child);

impl Target {
    fn start(command: &mut Command) -> Self {
        let command = command.process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut target = Self(child);
        let mut line = String::new();
        BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        target
    }

    fn idle() -> Self {
        Self::start(Command::new("sh").args(["-c", "echo ready; read x"]))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// CPUs that each of its threads may use.
    fn cpus(&self) -> BTreeSet<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
        let texts: Vec<String> = tasks.flatten().filter_map(status).collect();
        let list = |text: &String| {
            let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.unwrap().trim().to_owned()
        };
        texts.iter().map(list).collect()
    }

    fn groups(&self) -> String {
        fs::read_to_string(format!("/proc/{}/cgroup", self.0.id())).unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Also ends the processes that it has started.
        let group = format!("-{}", self.pid());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
        let _ = self.0.wait();
    }
}

fn daemon(arguments: &[&str]) -> Child {
    let mut command = Command::new(NUMAPILOT);
    command.arg("cores").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The status and the messages of a daemon, which has to end soon.
fn end_with_messages(daemon: &mut Child) -> (ExitStatus, String) {
    let status = end_of(daemon);
    let mut text = String::new();
    daemon.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (status, text)
}

/// The status of a daemon, which has to end soon.
fn end_of(daemon: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the end of the daemon", || {
        status = daemon.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

fn all_cpus() -> usize {
    numapilot_topology::read("/".as_ref()).unwrap().allowed.cpus.len()
}

/// The ways to hold a target that work here, with more than one CPU to choose from. Every test that
/// would use another one prints that it is skipped.
fn ways() -> Vec<&'static str> {
    const WAYS: [&str; 2] = ["cgroup-v1", "affinity"];
    static REFUSALS: OnceLock<[Option<String>; 2]> = OnceLock::new();
    if all_cpus() < 2 {
        println!("skipped: one CPU");
        return Vec::new();
    }
    let refusals = REFUSALS.get_or_init(|| WAYS.map(refusal));
    for refusal in refusals.iter().flatten() {
        println!("skipped: {refusal}");
    }
    let works = |(way, refusal): (_, &Option<String>)| refusal.is_none().then_some(way);
    WAYS.into_iter().zip(refusals).filter_map(works).collect()
}

/// Why a target cannot be held this way. A run that is not refused goes on until the timeout.
fn refusal(way: &str) -> Option<String> {
    let target = Target::idle();
    let output = cores(&["-p", &target.pid(), "--actuator", way, "--dry-run"])
        .timeout(Duration::from_secs(1))
        .output()
        .unwrap();
    err(&output).contains("cannot be held").then(|| err(&output).trim().to_owned())
}

const CPUSET: &str = "/sys/fs/cgroup/cpuset";

/// Whether mount namespaces are available; if not, prints that the test is skipped.
fn in_a_mount_namespace() -> bool {
    let tried =
        Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/run"]).output();
    match tried {
        Ok(output) if output.status.success() => return true,
        Ok(output) => println!("skipped: no mount namespaces here: {}", err(&output).trim()),
        Err(error) => println!("skipped: unshare: {error}"),
    }
    false
}
