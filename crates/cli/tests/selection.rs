//! `--cgroup` and `--unit` of `stat`, `top`, `balance` and `cores`: the processes that are in the
//! group at the start.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use numapilot_test_kit::{Cgroup, wait_until};

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

/// A shell with a child, in a group of its own, which end before the group is removed.
struct Program {
    shell: Child,
    path: String,
    _group: Cgroup,
}

impl Program {
    /// `None`, with a message, where no group can be made.
    fn start(name: &str) -> Option<Self> {
        let Some(group) = Cgroup::make(name) else {
            println!("skipped: no group of cgroup v2 can be made");
            return None;
        };
        // It starts its child once it is in the group.
        let mut command = Command::new("sh");
        command.args(["-c", "read _; sleep 60 & wait"]).stdin(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let is_in = group.join(&shell.id().to_string());
        let path = Cgroup::path_of(&shell.id().to_string());
        drop(shell.stdin.take());
        if !is_in {
            let _ = shell.kill();
            let _ = shell.wait();
            println!("skipped: no process may be moved into a group");
            return None;
        }
        Some(Self { shell, path, _group: group })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        for pid in children(self.shell.id()) {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn children(pid: u32) -> Vec<String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn numapilot(arguments: &[&str]) -> Output {
    Command::new(NUMAPILOT).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn stat_and_top_observe_the_processes_of_a_group() {
    let Some(program) = Program::start("observe") else { return };
    wait_until("the shell starts no child", || !children(program.shell.id()).is_empty());
    let group = ["--cgroup", &program.path];
    let stat = numapilot(&[&["stat"][..], &group, &["--", "sleep", "0.1"]].concat());
    assert!(stat.status.success(), "{}", text(&stat.stderr));
    // Only the shell is named; the child is its descendant.
    let named = format!("process {}", program.shell.id());
    let title = text(&stat.stderr);
    let title = title.lines().find(|line| line.contains("process ")).unwrap_or_default();
    assert!(title.contains(&named) && !title.contains(','), "{title}");
    let top = numapilot(&[&["top", "--once", "-d", "50ms"][..], &group].concat());
    assert!(top.status.success(), "{}", text(&top.stderr));
    assert!(text(&top.stdout).contains(&program.path), "{}", text(&top.stdout));
}

#[test]
fn cores_controls_the_processes_of_a_group() {
    let Some(program) = Program::start("cores") else { return };
    let group = ["--cgroup", &program.path];
    let mut daemon = Command::new(NUMAPILOT)
        .args([&["cores", "--dry-run", "-v", "--tick=50ms"][..], &group].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = program.shell.id().to_string();
    let mut lines = BufReader::new(daemon.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(&pid)), "it names no process {pid}");
    // It ends with the program.
    drop(program);
    lines.for_each(drop);
    daemon.wait().unwrap();
}

#[test]
fn what_has_no_process_is_an_error_with_the_remedy() {
    for verb in [&["stat"][..], &["top", "--once"], &["balance"], &["cores"]] {
        let output = numapilot(&[verb, &["--unit", "numapilot-test-none"]].concat());
        assert_eq!(output.status.code(), Some(125), "{verb:?}");
        let error = text(&output.stderr);
        assert!(error.contains("numapilot-test-none.service has no process now"), "{error}");
        assert!(error.contains("systemctl status numapilot-test-none.service"), "{error}");
        let output = numapilot(&[verb, &["--cgroup", "/a/../b"]].concat());
        assert!(text(&output.stderr).contains(".."), "{verb:?}");
    }
}

#[test]
fn a_daemon_does_not_manage_itself() {
    for verb in ["balance", "cores"] {
        let output = numapilot(&[verb, "--cgroup", "/"]);
        assert_eq!(output.status.code(), Some(125), "{verb}");
        let error = text(&output.stderr);
        assert!(error.contains("this run of numapilot is among the selected"), "{error}");
    }
}

#[test]
fn a_selection_and_a_command_exclude_each_other() {
    for verb in ["balance", "cores"] {
        let output = numapilot(&[verb, "--unit", "db", "--", "true"]);
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
    }
    for more in [&["-a"][..], &["-r2"], &["--profile=x"]] {
        let output = numapilot(&[&["stat", "--unit", "db"], more].concat());
        assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
    }
    let output = numapilot(&["stat"]);
    assert!(text(&output.stderr).contains("required"), "{}", text(&output.stderr));
}
