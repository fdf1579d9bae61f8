//! Searches that are killed, interrupted and resumed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command as Process, Output, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use numapilot_sys::process::PidFd;
use numapilot_test_kit::make_executable;
use serde_json::Value;

use super::{error, folder, json, tune};

#[test]
fn a_killed_search_goes_on_where_it_was() {
    let folder = folder(&[("fast", "FIGURE", "80"), ("slow", "FIGURE", "130")]);
    let search = |more: &[&str]| tune(folder.path(), &["fast", "slow"], more);
    let whole = json(search(&["--json", "--svg", "x.svg"]));
    let journal = folder.path().join("state/trials.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // As kill -9 leaves it: some lines, the last one cut short.
    let kept = lines[..8].join("\n") + "\n" + &lines[8][..10];
    fs::write(&journal, &kept).unwrap();
    // The files that the search wrote when it stopped are replaced without --force.
    assert!(folder.path().join("numapilot.toml").exists());
    let resumed = json(search(&["--json", "--resume", "--svg", "x.svg"]));
    for key in ["best", "plans", "runs", "stop"] {
        assert_eq!(resumed[key], whole[key], "{key}");
    }
    let now = fs::read_to_string(&journal).unwrap();
    assert_eq!(now.lines().count(), lines.len());
    assert!(now.starts_with(&lines[..8].join("\n")));

    let other = tune(folder.path(), &["fast"], &["--resume"]);
    assert!(error(other, 125).contains("belongs to another search: its plans"));
}

/// Sends a signal to a search once it has measured the noise, and waits for its end.
fn signalled(search: &mut Process, signal: i32) -> Output {
    let mut child = search.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("noise")));
    PidFd::open(child.id().cast_signed()).unwrap().signal(signal).unwrap();
    let rest = std::thread::spawn(move || lines.count());
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap();
    output
}

/// As under nohup, and as INT of a command that a shell runs in the background.
#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    let mut search = Process::new("nohup");
    search
        .arg(assert_cmd::cargo::cargo_bin("numapilot"))
        .current_dir(folder.path())
        .args(["tune", "--state", "state", "--plan", "fast", "--only-plans", "--max-runs", "20"])
        .args(["--", "sleep", "0.05"])
        .stdin(Stdio::null());
    let output = signalled(&mut search, libc::SIGHUP);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_interruption_prints_what_is_known() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    let mut search = Process::new(assert_cmd::cargo::cargo_bin("numapilot"));
    search
        .current_dir(folder.path())
        .args(["tune", "--state", "state", "--max-runs", "5000", "--resolution", "0.01", "--"])
        .args(["sleep", "0.05"]);
    let output = signalled(&mut search, libc::SIGINT);
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("default: median") && text.contains("interrupted"), "{text}");
}

#[test]
fn a_signal_that_ends_it_is_in_the_status() {
    for (signal, status) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let folder = folder(&[]);
        let mut child = Process::new(assert_cmd::cargo::cargo_bin("numapilot"))
            .current_dir(folder.path())
            .args(["tune", "--state", "state", "--max-runs", "5000", "--", "sleep", "0.05"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("noise")));
        PidFd::open(child.id().cast_signed()).unwrap().signal(signal).unwrap();
        assert!(lines.count() < 1000);
        assert_eq!(child.wait().unwrap().code(), Some(status));
    }
}

#[test]
fn a_program_that_has_changed_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let write = |text: &str| {
        make_executable(&program, &mut text.as_bytes());
    };
    let search = |more: &[&str]| {
        let mut command = Command::cargo_bin("numapilot").unwrap();
        command.current_dir(folder.path()).args(["tune", "--state", "state"]).args(more);
        for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
            command.args(["--factor", factor]);
        }
        command.args(["--factor", "numa-balancing=inherit", "--", "./program"]);
        command
    };
    write("#!/bin/sh\nexit 0\n");
    search(&[]).assert().success();
    search(&["--resume"]).assert().success();
    write("#!/bin/sh\nexit  0\n");
    let text = error(search(&["--resume"]), 125);
    assert!(text.contains("the program has changed"), "{text}");
    assert!(text.contains("start a new search without --resume"), "{text}");
}

/// An output that is full, so that writers wait, and its reader.
fn full_output() -> (UnixStream, Stdio) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    while writer.write(&[b' '; 4096]).is_ok() {}
    writer.set_nonblocking(false).unwrap();
    (reader, OwnedFd::from(writer).into())
}

/// The report cannot be printed, so the first Ctrl-C alone would not end the program.
#[test]
fn a_second_interruption_ends_at_once_and_leaves_nothing_running() {
    let folder = folder(&[]);
    let path = |name: &str| folder.path().join(name);
    let slow = "if test -e slow; then echo $$ > pid.new; mv pid.new pid; exec sleep 600; fi";
    let search = |more: &[&str]| {
        let mut command = Process::new(assert_cmd::cargo::cargo_bin("numapilot"));
        command.current_dir(folder.path()).args(["tune", "--state", "state"]).args(more);
        command.args(["--max-runs", "40", "--", "sh", "-c", slow]);
        command
    };
    let (_reader, output) = full_output();
    let mut child = search(&[]).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("noise")));
    let rest = std::thread::spawn(move || lines.count());
    fs::write(path("slow"), "").unwrap();
    let program = loop {
        if let Ok(text) = fs::read_to_string(path("pid")) {
            break text.trim().parse::<i32>().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let program = PidFd::open(program).unwrap();
    let search_process = PidFd::open(child.id().cast_signed()).unwrap();
    for _ in 0..1000 {
        search_process.signal(libc::SIGINT).unwrap();
        if search_process.ended_within(Some(Duration::from_millis(20))).unwrap() {
            break;
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    rest.join().unwrap();
    assert!(program.ended_within(Some(Duration::from_secs(60))).unwrap());

    fs::remove_file(path("slow")).unwrap();
    let resumed = search(&["--resume", "--json"]).output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let report: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert!(report["runs"].as_u64().unwrap() > 5);
}
