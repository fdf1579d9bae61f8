//! Shared by the tests that boot emulated machines.

#![allow(dead_code, unused_imports, reason = "not every test file uses all of it")]

#[path = "../../../cli/tests/programs/mod.rs"]
mod programs;

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use numapilot_observe::lab::LabPmu;

pub use programs::{NUMAPILOT, compiled, err, signal};

/// A machine of one node, which boots fastest.
pub const SMALL: [&str; 4] = ["--machine", "i9-7900x", "--no-model", "--"];

/// `numapilot lab run` of a command on `SMALL`.
pub fn on_small(command: &[&str]) -> Command {
    let mut all = Command::new(NUMAPILOT);
    all.args(["lab", "run"]).args(SMALL).args(command);
    all
}

/// Whether machines can be emulated here. If not, prints that the test is skipped.
pub fn boots() -> bool {
    let missing = numapilot_lab::emulator::Emulator::find()
        .map(drop)
        .and_then(|()| numapilot_lab::Kernel::find().map(drop));
    match missing {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

/// `numapilot lab` with these arguments and no input.
pub fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(NUMAPILOT);
    command.arg("lab").args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs a test of this test program in a guest with counters, where it must pass. In the guest,
/// `body` runs.
pub fn in_a_guest(test: &str, machine: &str, options: &[&str], body: impl FnOnce(&LabPmu)) {
    if let Some(lab) = LabPmu::find().unwrap() {
        return body(&lab);
    }
    if !boots() {
        return;
    }
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "-o", "/dev/null", "-m", machine, "--timeout", "300s"])
        .args(options)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", err(&output));
    assert!(text.contains("test result: ok. 1 passed"), "{text}");
    print!("{text}");
}

/// Ends the threads of a test, which run until the flag is set, even when the test fails.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
