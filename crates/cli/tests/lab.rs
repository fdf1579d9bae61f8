//! `numapilot lab`: programs on emulated machines, and what is left when they have ended.
//!
//! Every boot takes seconds: what can share one does.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod guests;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use guests::{NUMAPILOT, boots, err, lab, signal};

/// A machine of one node: it boots fastest.
const SMALL: [&str; 4] = ["--machine", "i9-7900x", "--no-model", "--"];

fn on_small(command: &[&str]) -> Command {
    let mut all = Command::new(NUMAPILOT);
    all.args(["lab", "run"]).args(SMALL).args(command);
    all
}

fn finish(mut child: Child, input: &[u8]) -> Output {
    let written = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    assert!(written.is_ok(), "{written:?}, {}: {}", output.status, err(&output));
    output
}

#[test]
fn streams_and_status_are_the_programs() {
    if !boots() {
        return;
    }
    // Binary input comes back twice, larger than any buffer between; messages stay apart.
    let script = "read line; echo \"got $line\" >&2; cat; exit 7";
    let piped = |command: &mut Command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let binary: Vec<u8> =
        (0..3_000_000u32).map(|i| (i.wrapping_mul(7919) >> 5).to_le_bytes()[0]).collect();
    let child = piped(
        Command::new(NUMAPILOT)
            .args(["lab", "run", "--include", "cat"])
            .args(SMALL)
            .args(["sh", "-c", script]),
    );
    let output = finish(child.unwrap(), &[b"a line\n", binary.as_slice()].concat());
    assert_eq!(output.status.code(), Some(7), "{}", err(&output));
    assert_eq!(err(&output), "got a line\n");
    assert!(output.stdout == binary, "{} bytes of {}", output.stdout.len(), binary.len());
}

#[test]
fn a_signal_is_a_status_and_signals_are_passed_on() {
    if !boots() {
        return;
    }
    let script = "trap 'echo caught; kill -KILL $$' INT; echo ready; while :; do sleep 0.1; done";
    let mut child = Command::new(NUMAPILOT)
        .args(["lab", "run", "--include", "sleep"])
        .args(SMALL)
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    signal(&child, libc::SIGINT);
    assert_eq!(lines.next().as_deref(), Some("caught"));
    assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
}

#[test]
fn a_hung_program_and_a_dead_kernel_are_reported() {
    if !boots() {
        return;
    }
    let hung = thread::spawn(|| {
        Command::new(NUMAPILOT)
            .args(["lab", "run", "--timeout", "1s", "--include", "sleep"])
            .args(SMALL)
            .args(["sleep", "1000"])
            .output()
            .unwrap()
    });
    let dead = Command::new(NUMAPILOT)
        .args(["lab", "run", "--append", "init=/nonexistent"])
        .args(SMALL)
        .arg("true")
        .output()
        .unwrap();
    assert_eq!(dead.status.code(), Some(125), "{}", err(&dead));
    let message = err(&dead);
    assert!(message.contains("the guest's kernel ended before the program did"), "{message}");
    assert!(message.contains("Kernel panic"), "{message}");
    let hung = hung.join().unwrap();
    assert_eq!(hung.status.code(), Some(125), "{}", err(&hung));
    assert!(err(&hung).contains("did not end within 1 s (--timeout)"), "{}", err(&hung));
}

/// Processes whose parent is this one.
fn children_of(parent: u32) -> Vec<u32> {
    let stat = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        entry.unwrap().file_name().to_str().and_then(|name| name.parse::<u32>().ok())
    });
    pids.filter(|pid| {
        let text = stat(*pid).unwrap_or_default();
        let rest = text.rsplit(") ").next().unwrap_or_default();
        rest.split(' ').nth(1).and_then(|p| p.parse().ok()) == Some(parent)
    })
    .collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < limit, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process is there and not only waited for.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), None | Some('Z' | 'X'))
}

#[test]
fn nothing_is_left_of_a_killed_or_interrupted_lab() {
    if !boots() {
        return;
    }
    let cache = numapilot_lab::cache_directory().unwrap();
    for number in [libc::SIGKILL, libc::SIGINT] {
        let mut child = on_small(&["true"]).stdin(Stdio::null()).spawn().unwrap();
        let mut emulator = 0;
        until("QEMU starts", || {
            let mut children = children_of(child.id()).into_iter();
            let found = children.find(|pid| {
                // Not one that is only asked for its version.
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                words.split(|b| *b == 0).any(|word| word == b"-kernel")
            });
            emulator = found.unwrap_or(0);
            emulator != 0
        });
        signal(&child, number);
        let status = child.wait().unwrap();
        if number == libc::SIGINT {
            assert_eq!(status.code(), Some(128 + libc::SIGINT));
        }
        until("QEMU ends", || !runs(emulator));
        // The image had no name.
        let names = fs::read_dir(&cache).unwrap().map(|e| e.unwrap().file_name());
        let known = ["kernel", "stages", "tools"].map(Into::into);
        assert!(names.into_iter().all(|name| known.contains(&name)));
    }
}

#[test]
fn regions_are_counted_and_printed() {
    if !boots() {
        return;
    }
    let script = "numapilot lab mark begin here; for i in 1 2 3; do :; done; \
                  numapilot lab mark end here";
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("traffic.svg");
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "--machine", "threadripper-1950x", "--json", "--svg"])
        .arg(&picture)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["machine"], "threadripper-1950x");
    assert_eq!(json["exit_status"], 0);
    let regions = json["regions"].as_array().unwrap();
    let names: Vec<_> = regions.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["all", "here"]);
    for region in regions {
        let accesses: u64 = region["traffic"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|row| row.as_array().unwrap())
            .map(|cell| cell.as_u64().unwrap())
            .sum();
        let number = |key: &str| region[key].as_u64().unwrap();
        assert_eq!(accesses, number("local_accesses") + number("remote_accesses"), "{region}");
        for key in ["simulated_seconds", "ipc", "controller_imbalance", "local_access_ratio"] {
            assert!(region.get(key).is_some(), "{key} is missing: {region}");
        }
    }
    assert!(regions[0]["instructions"].as_u64() > regions[1]["instructions"].as_u64());
    assert!(fs::read_to_string(picture).unwrap().contains("node 1"));
}

#[test]
fn bad_input_is_refused_before_anything_boots() {
    let refused = |arguments: &[&str], status: i32, expected: &str| {
        let output = lab(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(expected), "{arguments:?}: {}", err(&output));
        assert!(output.stdout.is_empty());
    };
    refused(&["run", "-m", "no-such", "--", "true"], 125, "no machine is named 'no-such'");
    let directory = tempfile::tempdir().unwrap();
    let description = fs::read_to_string(repository().join("machines/machine-b.toml")).unwrap();
    let broken = |name: &str, from: &str, to: &str| -> PathBuf {
        assert!(description.contains(from), "{from}");
        let path = directory.path().join(name);
        fs::write(&path, description.replace(from, to)).unwrap();
        path
    };
    for (from, to, expected) in [
        ("memory_per_node = \"512 MiB\"", "memory_per_node = \"0 MiB\"", "lab.memory_per_node"),
        ("cpus_per_node = 2", "cpus_per_node = 0", "lab.cpus_per_node"),
        ("[lab]", "[laboratory]", "unknown field `laboratory`"),
        ("ids = \"0-3\"", "ids = \"0-4\"", "cannot be reached"),
    ] {
        let path = broken("machine.toml", from, to);
        refused(&["run", "-m", path.to_str().unwrap(), "--", "true"], 125, expected);
    }
    if !boots() {
        return;
    }
    refused(&["run", "-m", "cxl", "--", "no-such-program"], 127, "not found in PATH");
    refused(&["run", "-m", "cxl", "--", "/etc/passwd"], 126, "cannot be executed");
    refused(&["run", "-m", "cxl", "--include", "no-such", "--", "true"], 125, "--include no-such");
    refused(&["mark", "begin", "x"], 125, "this machine is not emulated");
    refused(&["shell", "-m", "cxl"], 125, "needs a terminal");
}

#[test]
fn missing_parts_are_named() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "-m", "cxl", "--", "/bin/true"])
        .env("XDG_CACHE_HOME", empty.path())
        .env("PATH", empty.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let message = err(&output);
    assert!(message.contains("no qemu-system-x86_64 on PATH"), "{message}");
    assert!(message.contains("numapilot lab setup"), "{message}");
    assert!(fs::read_dir(empty.path()).unwrap().next().is_none(), "something was left");
}

#[test]
fn every_machine_is_listed() {
    let output = lab(&["list"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for (name, _) in numapilot_topology::description::SHIPPED {
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{name}");
    }
    let mut json = String::new();
    lab(&["list", "--json"]).stdout.as_slice().read_to_string(&mut json).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["name"], "cxl");
    assert_eq!((&json[0]["nodes"], &json[0]["lab_cpus"]), (&2.into(), &4.into()));
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
