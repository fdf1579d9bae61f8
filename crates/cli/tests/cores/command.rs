//! Tests of the command line: what is printed, what is refused, and what the program gets.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use predicates::prelude::*;

use crate::programs::{NUMAPILOT, err, signal};
use crate::{Target, all_cpus, alone, cores, daemon, end_of, end_with_messages, wait_until};

#[test]
fn the_status_of_the_program_is_passed_through() {
    let _alone = alone();
    for status in [0, 7] {
        let script = format!("echo out; exit {status}");
        cores(&["--", "sh", "-c", &script]).assert().code(status).stdout("out\n");
    }
    cores(&["--", "sh", "-c", "kill -9 $$"]).assert().code(137);
    // As for run, stat, tune and top, `--` is optional.
    cores(&["sh", "-c", "echo out; exit 7"]).assert().code(7).stdout("out\n");
    cores(&["--tick", "50ms", "sh", "-c", "echo $0 $1", "-v", "--max"])
        .assert()
        .code(0)
        .stdout("-v --max\n");
    cores(&["--", "/nonexistent/program"]).assert().code(127);
    cores(&["--", "/etc/passwd"]).assert().code(126);
}

#[test]
fn what_cannot_be_is_reported() {
    let _alone = alone();
    let fails = |arguments: &[&str], why: &str| {
        cores(arguments).assert().code(125).stderr(predicate::str::contains(why));
    };
    fails(&["-p", "2147483647"], "process 2147483647 does not exist");
    fails(&[], "COMMAND");
    fails(&["--thmin", "80", "--", "true"], "--thmin 80 is not below --thmax 70");
    fails(&["--thmax", "130", "--", "true"], "is not a percentage");
    fails(&["--min", "3", "--max", "2", "--", "true"], "--max is below --min");
    fails(&["--min", "0", "--", "true"], "write a number of at least 1");
    fails(&["--tick", "1ms", "--", "true"], "too short");
    fails(&["-I", "1", "--", "true"], "too short");
    fails(&["-I", "100", "--tick", "1s", "--", "true"], "cannot be used with");
    fails(&["-p", "1,2", "--weight", "1", "--dry-run"], "give one for each");
    fails(&["--weight", "3", "true"], "name them with -p");
    fails(&["--svg", "/nonexistent/x.svg", "--", "true"], "/nonexistent/x.svg");
    fails(&["simulate", "--trace", "/nonexistent"], "/nonexistent");
    fails(&["simulate", "--trace", "/dev/zero"], "more than 67108864 bytes");
    let target = Target::idle();
    fails(&["-p", &target.pid(), "--min", "5000"], "--min 5000");
}

#[test]
fn the_net_is_explained_and_drawn() {
    let _alone = alone();
    cores(&["--explain"]).assert().success().stdout(
        predicate::str::contains("release a core").and(predicate::str::contains("marking")),
    );
    cores(&["--dot"]).assert().success().stdout(predicate::str::starts_with("digraph cores {"));
    let target = Target::idle();
    let mut daemon = daemon(&["-p", &target.pid(), "--explain", "--dry-run"]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&daemon, libc::SIGINT);
    assert!(end_of(&mut daemon).success());
    let mut text = String::new();
    daemon.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("last tick    t"), "{text}");
}

#[test]
fn a_load_is_simulated_in_both_modes() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("burst.svg");
    let output =
        cores(&["simulate", "--load", "burst", "--svg", svg.to_str().unwrap()]).output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
     mode     cores  most  changes  waited
     paper    14.13    16       15   6.5 %
     default   9.76    16        4   2.1 %
    ");
    assert!(fs::read_to_string(svg).unwrap().contains("default mode"));
    let trace = directory.path().join("trace");
    fs::write(&trace, "1\n2\nthree\n").unwrap();
    cores(&["simulate", "--trace", trace.to_str().unwrap()])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("line 3: 'three'"));
}

#[test]
fn a_dry_run_changes_nothing() {
    let _alone = alone();
    let target = Target::idle();
    let before = (target.cpus(), target.groups());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("output");
    let mut daemon = Command::new(NUMAPILOT)
        .args(["cores", "-p", &target.pid(), "--dry-run", "-v", "--tick", "20ms"])
        .stdout(fs::File::create(&file).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut expected = vec![format!("process {} would begin with ", target.pid())];
    if all_cpus() > 1 {
        expected.push(format!("process {}: ", target.pid()));
    }
    wait_until("what would be done", || {
        let output = fs::read_to_string(&file).unwrap();
        expected.iter().all(|words| output.contains(words))
    });
    assert_eq!((target.cpus(), target.groups()), before);
    signal(&daemon, libc::SIGINT);
    let (status, messages) = end_with_messages(&mut daemon);
    assert!(status.success(), "{messages}");
    // It claims nothing that was not done.
    assert!(messages.contains("would be held by "), "{messages}");
    assert!(messages.contains(": would have had "), "{messages}");
    assert!(!messages.contains("is held") && !messages.contains(" begins"), "{messages}");
}

/// If the reader of the lines goes away, or the disk of the output is full, the program still runs
/// to its end, and its status is passed through.
#[test]
fn a_failed_write_does_not_end_the_program() {
    let _alone = alone();
    let mut command = Command::new(NUMAPILOT);
    command.args(["cores", "--json", "--tick", "20ms", "--", "sh", "-c", "sleep 1; exit 7"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{'), "{line}");
    let output = child.wait_with_output().unwrap();
    let stderr = err(&output);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert_eq!(stderr.matches("Broken pipe").count(), 1, "{stderr}");
    assert!(stderr.contains("the program is not affected"), "{stderr}");
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["cores", "--json", "--tick", "20ms", "--", "sh", "-c", "sleep 0.3; exit 7"])
        .stdout(full())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", err(&output));
    assert_eq!(err(&output).matches("No space left").count(), 1, "{}", err(&output));
    // The same without any working output.
    let status = Command::new(NUMAPILOT)
        .args(["cores", "--explain", "-v", "--tick", "20ms", "--", "sh", "-c", "sleep 0.3; exit 7"])
        .stderr(full())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(7));
}

/// numapilot opens a file for every process, thread or CPU, so it raises its own limit; the program
/// keeps its limit.
#[test]
fn the_program_keeps_the_limit_of_open_files() {
    let _alone = alone();
    for verb in ["cores", "stat"] {
        let script = format!("ulimit -Sn 64 && exec {NUMAPILOT} {verb} -- sh -c 'ulimit -Sn'");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "64\n", "{}", err(&output));
    }
}
