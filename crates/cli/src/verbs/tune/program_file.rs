//! Finds the program of a command.

use std::ffi::OsString;
use std::path::PathBuf;

use numapilot_place::find_program;

/// The file that a command executes, if it is there.
pub fn program_file(command: &[OsString]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    find_program(command.first()?, &path)
}
