//! Tests of `numapilot run`: what the program gets, and what the caller gets back.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod allocators;
mod command;
mod daemons;
mod effects;
mod filters;
mod settings;
mod signals;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

fn run(arguments: &[&str]) -> Output {
    Command::new(NUMAPILOT).arg("run").args(arguments).output().unwrap()
}

fn out(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn failure(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(125), "{arguments:?}: {}", err(&output));
    assert!(output.stdout.is_empty());
    err(&output)
}

/// Compiles a C program, or says why the test is skipped.
fn compile(directory: &Path, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let file = directory.join("program.c");
    let program = directory.join("program");
    fs::write(&file, source).unwrap();
    let result = Command::new("cc").arg("-o").arg(&program).arg(&file).args(flags).output();
    match result {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            println!("skipped: cc {flags:?} fails here: {}", err(&output));
            None
        }
        Err(error) => {
            println!("skipped: no C compiler: {error}");
            None
        }
    }
}

/// An allocator that exists in every build of numapilot.
fn own_allocator() -> PathBuf {
    Path::new(NUMAPILOT).with_file_name("libnumapilot_alloc.so")
}
