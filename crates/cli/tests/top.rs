//! `numapilot top`: as text, and in a terminal.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod terminal;

use std::process::Command;
use std::time::Duration;

use assert_cmd::assert::OutputAssertExt;
use predicates::str::contains;
use rustix::termios::LocalModes;

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
    // Nothing to draw on: a pipe.
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
    // The screen before is back, with its cursor, and lines are lines again.
    terminal.expect("\x1b[?1049l", limit);
    let modes = terminal.modes().local_modes;
    assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON), "{modes:?}");
}
