//! Tests of `numapilot top`: as text, and in a terminal.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod terminal;

use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::assert::OutputAssertExt;
use predicates::str::contains;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcsetwinsize};

use crate::terminal::Terminal;

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
        // Missing figures have their reasons, in lines that fit a terminal.
        let missing = |line: &&str| line.starts_with("<not supported>");
        for line in text.lines().filter(missing) {
            assert!(line.chars().count() <= 80 && !line.contains("says why"), "{text}");
        }
    }
    let output = top(&["-n", "2", "-d", "50ms"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("numapilot top").count(), 2, "{text}");
}

#[test]
fn what_cannot_be_is_refused() {
    top(&["--once", "-p", "2147483647"]).assert().code(125).stderr(contains("2147483647"));
    top(&["--once", "-d", "1ms"]).assert().code(125).stderr(contains("50ms or more"));
    top(&["--once", "-I", "1"]).assert().code(125).stderr(contains("50ms or more"));
    top(&["--once", "-n", "2"]).assert().code(125);
    // A pipe cannot be drawn on.
    top(&[]).assert().code(125).stderr(contains("--once"));
}

#[test]
fn a_window_obeys_its_keys_and_leaves_the_terminal_as_it_was() {
    let mut terminal = Terminal::open();
    let mut child = terminal.start(top(&["-d", "100ms"]).env("NO_COLOR", "1"));
    let limit = Duration::from_secs(30);
    terminal.expect("sort: samples", limit);
    terminal.press("s");
    terminal.expect("sort: size", limit);
    terminal.press("p");
    terminal.expect("PAUSED", limit);
    assert!(!terminal.shown().contains("\x1b[1m"), "bold, with NO_COLOR");
    terminal.press("q");
    assert!(child.wait().unwrap().success());
    // The previous screen is back, with its cursor, and line buffering is on.
    terminal.expect("\x1b[?1049l", limit);
    let modes = terminal.modes().local_modes;
    assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON), "{modes:?}");
}

fn ends(child: &mut Child) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

#[test]
fn a_window_ends_by_signals_and_with_its_terminal() {
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let mut terminal = Terminal::open();
        let mut child = terminal.start(&mut top(&["-d", "10s"]));
        terminal.expect("sort: samples", Duration::from_secs(30));
        let pid = numapilot_sys::process::PidFd::open(child.id().cast_signed()).unwrap();
        pid.signal(signal).unwrap();
        assert!(ends(&mut child), "signal {signal}");
    }
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&user, size).unwrap();
    fcntl_setfl(&user, OFlags::NONBLOCK).unwrap();
    let mut user = std::fs::File::from(user);
    let mut child = {
        let program = std::fs::File::options().read(true).write(true).open(name).unwrap();
        let end = || program.try_clone().unwrap();
        let mut command = top(&["-d", "10s"]);
        command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut shown = String::new();
    let mut buffer = [0; 4096];
    while !shown.contains("sort: samples") {
        assert!(Instant::now() < deadline, "{shown:?}");
        match user.read(&mut buffer) {
            Ok(read) => shown.push_str(&String::from_utf8_lossy(&buffer[..read])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(10));
            }
            // The program has ended.
            Err(error) => panic!("{error}: {shown:?}"),
        }
    }
    // The window is closed. There is no SIGHUP, because the program has no controlling terminal.
    drop(user);
    assert!(ends(&mut child));
}

/// The name of a process must not steer the user's terminal.
#[test]
fn a_name_cannot_steer_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("a\x1b]0;x\x07\n");
    std::os::unix::fs::symlink("/bin/sleep", &name).unwrap();
    let mut child = Command::new(&name).arg("600").stdout(Stdio::null()).spawn().unwrap();
    let output = top(&["--once", "-d", "50ms", "-p", &child.id().to_string()]).output();
    child.kill().unwrap();
    child.wait().unwrap();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains(r"a\x1b]0;x\x07\x0a ("), "{text}");
    assert!(!text.contains(['\x1b', '\x07']), "{text:?}");
}
