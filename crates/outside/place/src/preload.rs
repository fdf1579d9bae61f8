//! The variable `LD_PRELOAD` (ld.so(8)): paths or names of libraries, separated by colons or blanks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The value in an environment, as `/proc/PID/environ` shows it.
pub(crate) fn in_environment(environment: &[u8]) -> Option<&OsStr> {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|v| v.strip_prefix(b"LD_PRELOAD=")).map(OsStr::from_bytes)
}

/// The libraries of a value, in order.
pub(crate) fn entries(value: &OsStr) -> impl Iterator<Item = &Path> {
    let entries = value.as_bytes().split(|byte| b": \t\n".contains(byte));
    entries.filter(|entry| !entry.is_empty()).map(|entry| Path::new(OsStr::from_bytes(entry)))
}
