//! The programs that tests start: numapilot's own, and programs compiled from the sources beside
//! this file.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use numapilot_sys::process::PidFd;

/// The path of `numapilot`, also for the tests of numapilot-lab, which is built into the same
/// directory.
pub const NUMAPILOT: &str = match option_env!("CARGO_BIN_EXE_numapilot") {
    Some(own) => own,
    None => match option_env!("CARGO_BIN_EXE_numapilot-lab") {
        Some(lab) => lab.split_at(lab.len() - "-lab".len()).0,
        None => panic!("the tests of another package"),
    },
};

/// The path of `numapilot-lab`, which is in the same directory.
pub fn numapilot_lab() -> String {
    format!("{NUMAPILOT}-lab")
}

/// The text that a program wrote to standard error.
pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sends a signal.
pub fn signal(child: &Child, number: i32) {
    PidFd::open(child.id().cast_signed()).unwrap().signal(number).unwrap();
}

/// Builds a program of this folder into a directory. Without a compiler, prints that the test is
/// skipped.
pub fn compiled(source: &str, directory: &Path) -> Option<PathBuf> {
    let program = directory.join(Path::new(source).file_stem().unwrap());
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/programs");
    let source = sources.join(source);
    match Command::new("cc").arg("-pthread").arg("-o").arg(&program).arg(source).output() {
        Ok(output) => assert!(output.status.success(), "{}", err(&output)),
        Err(error) => {
            println!("skipped: no C compiler: {error}");
            return None;
        }
    }
    Some(program)
}
