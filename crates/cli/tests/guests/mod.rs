//! What the tests that boot machines have in common.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::process::{Child, Command, Output, Stdio};

use numapilot_sys::process::PidFd;

pub const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

/// Whether machines can be emulated here; if not, says that the test is skipped.
pub fn boots() -> bool {
    let missing = numapilot_lab::emulator::Emulator::find()
        .map(drop)
        .and_then(|()| numapilot_lab::Kernel::find().map(drop))
        .and_then(|()| numapilot_lab::image::mke2fs().map(drop));
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

/// What a program said on standard error.
pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sends a signal.
pub fn signal(child: &Child, number: i32) {
    PidFd::open(child.id().cast_signed()).unwrap().signal(number).unwrap();
}
