//! The course of a run: streams, exit status, signals, time limits, and leftovers.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::guests::{NUMAPILOT, SMALL, boots, err, on_small, signal};

fn finish(mut child: Child, input: &[u8]) -> Output {
    let mut stdin = child.stdin.take().unwrap();
    // The program waits for the reader of its output as well.
    let (written, output) = thread::scope(|scope| {
        let writer = scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output().unwrap();
        (writer.join().unwrap(), output)
    });
    assert!(written.is_ok(), "{written:?}, {}: {}", output.status, err(&output));
    output
}

#[test]
fn streams_and_status_are_the_programs() {
    if !boots() {
        return;
    }
    // Binary input comes back, and exceeds every buffer on the way. Messages stay separate.
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
fn output_that_cannot_be_written_is_lost_with_a_warning() {
    if !boots() {
        return;
    }
    // The program writes more than a pipe holds, and is not killed.
    let script =
        "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i + 1)); done; echo end >&2; exit 3";
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run"])
        .args(SMALL)
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let messages = err(&output);
    let warning = "numapilot: warning: the program's output cannot be written and is lost from \
                   here on: No space left on device (os error 28)\nend\n";
    assert_eq!(messages, warning);
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
            .args(["lab", "run", "--timeout", "1s"])
            .args(SMALL)
            .args(["sh", "-c", "trap '' INT HUP TERM; while :; do :; done"])
            .output()
            .unwrap()
    });
    let dead = Command::new(NUMAPILOT)
        .args(["lab", "run", "--append", "rdinit=/nonexistent"])
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

/// The program does not end on its own: timeout(1) sends a single signal, and that must end the
/// lab.
#[test]
fn a_guest_that_hangs_ends_with_the_first_signal() {
    if !boots() {
        return;
    }
    let mut command = on_small(&["sh", "-c", "echo ready; read x"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let emulator = emulator_of(&child);
    let stop = format!("kill -STOP {emulator}");
    assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
    signal(&child, libc::SIGTERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    assert!(err(&output).contains("the guest hangs"), "{}", err(&output));
    until("QEMU ends", || !runs(emulator));
}

/// Processes with this parent.
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

/// Whether a process exists and is not a zombie.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !matches!(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()), None | Some('Z' | 'X'))
}

/// The QEMU process of a lab, once it boots.
pub fn emulator_of(lab: &Child) -> u32 {
    let mut emulator = None;
    until("QEMU starts", || {
        emulator = children_of(lab.id()).into_iter().find(|pid| {
            // Skip a QEMU that was started only to check its version or the plugin.
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|b| *b == 0).any(|word| word == b"-kernel")
        });
        emulator.is_some()
    });
    emulator.unwrap()
}

#[test]
fn nothing_is_left_of_a_killed_or_interrupted_lab() {
    if !boots() {
        return;
    }
    let cache = numapilot_lab::cache_directory().unwrap();
    let mut known = names(&cache);
    known.extend(["kernel", "scratch", "tools"].map(OsString::from));
    for number in [libc::SIGKILL, libc::SIGINT] {
        let mut child = on_small(&["true"]).stdin(Stdio::null()).spawn().unwrap();
        let emulator = emulator_of(&child);
        signal(&child, number);
        let status = child.wait().unwrap();
        if number == libc::SIGINT {
            assert_eq!(status.code(), Some(128 + libc::SIGINT));
        }
        until("QEMU ends", || !runs(emulator));
        // The initramfs has no name in the file system.
        assert!(names(&cache).is_subset(&known), "{:?} of {known:?}", names(&cache));
    }
}

/// Names of the files in a directory.
fn names(directory: &Path) -> BTreeSet<OsString> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn labs_at_the_same_time_do_not_disturb_each_other() {
    if !boots() {
        return;
    }
    // Two different machines each count in a file of the same name, while a third lab is killed.
    let script = "for i in 1 2 3 4 5; do echo $0 $i >> /tmp/same; sleep 0.3; done; \
                  cat /tmp/same; hostname; nproc; exit $1";
    let start = |machine: &str, name: &str, status: &str| {
        let mut command = Command::new(NUMAPILOT);
        command
            .args(["lab", "run", "--json", "-m", machine, "--", "sh", "-c", script, name, status]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let one = start("cxl", "one", "3");
    let two = start("threadripper-1950x", "two", "4");
    let mut third = on_small(&["sleep", "100"]).stdin(Stdio::null()).spawn().unwrap();
    let emulator = emulator_of(&third);
    // Nothing that they write has a name in shared memory.
    let files = fs::read_dir(format!("/proc/{emulator}/fd")).unwrap();
    let mut links = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    assert!(!links.any(|link| link.starts_with("/dev/shm")));
    signal(&third, libc::SIGKILL);
    third.wait().unwrap();
    for (lab, name, status, host, cpus) in
        [(one, "one", 3, "cxl", 4), (two, "two", 4, "threadripper-1950x", 8)]
    {
        let output = lab.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", err(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let (own, json) = text.split_at(text.find('{').unwrap());
        let lines: String = (1..=5).map(|i| format!("{name} {i}\n")).collect();
        assert_eq!(own, format!("{lines}{host}\n{cpus}\n"));
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!((&json["machine"], &json["exit_status"]), (&host.into(), &status.into()));
        assert!(json["regions"][0]["instructions"].as_u64().unwrap() > 0);
    }
    until("QEMU ends", || !runs(emulator));
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
