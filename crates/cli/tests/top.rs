//! `numapilot top`: as text, and in a terminal.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs::File;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::assert::OutputAssertExt;
use predicates::str::contains;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

fn top(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numapilot"));
    command.arg("top").args(arguments);
    command
}

#[test]
fn once_prints_text_and_ends() {
    let own = std::process::id().to_string();
    let targets: [&[&str]; 2] = [&[], &["-p", &own]];
    for target in targets {
        let output = top(&["--once", "-d", "100ms"]).args(target).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        for part in ["imbalance", "NODE", "TRAFFIC", "HOT REGIONS"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\x1b'), "{text}");
    }
    let output = top(&["-n", "2", "-d", "50ms"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("numapilot top").count(), 2, "{text}");
}

#[test]
fn what_cannot_be_is_refused() {
    top(&["--once", "-p", "2147483647"]).assert().code(125).stderr(contains("2147483647"));
    top(&["--once", "-d", "1ms"]).assert().code(125).stderr(contains("50ms or more"));
    top(&["--once", "-n", "2"]).assert().code(125);
    // Nothing to draw on: a pipe.
    top(&[]).assert().code(125).stderr(contains("--once"));
}

#[test]
fn a_window_obeys_its_keys_and_leaves_the_terminal_as_it_was() {
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keys).unwrap();
    unlockpt(&keys).unwrap();
    let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
    let terminal = File::options().read(true).write(true).open(name).unwrap();
    let mut keys = File::from(keys);
    tcsetwinsize(&keys, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let end = || terminal.try_clone().unwrap();
    let mut child = top(&["-d", "100ms"])
        .env("NO_COLOR", "1")
        .env("TERM", "xterm")
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    let screen = Arc::new(Mutex::new(String::new()));
    let (mut from, to) = (keys.try_clone().unwrap(), Arc::clone(&screen));
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            to.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    });
    let wait_for = |text: &str| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !screen.lock().unwrap().contains(text) {
            assert!(Instant::now() < deadline, "no {text} in {:?}", screen.lock().unwrap());
            thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for("sort: samples");
    keys.write_all(b"s").unwrap();
    wait_for("sort: size");
    keys.write_all(b"p").unwrap();
    wait_for("PAUSED");
    assert!(!screen.lock().unwrap().contains("\x1b[1m"), "bold, with NO_COLOR");
    keys.write_all(b"q").unwrap();
    assert!(child.wait().unwrap().success());
    // The screen before is back, with its cursor, and lines are lines again.
    wait_for("\x1b[?1049l");
    let modes = tcgetattr(&terminal).unwrap().local_modes;
    assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON), "{modes:?}");
}
