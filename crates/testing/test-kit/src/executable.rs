//! Makes executable files for tests.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a file that may be executed, through another process. If this process had the file open
/// for writing, a child that another thread forks meanwhile would have it open as well, and the
/// kernel would refuse to execute it (`ETXTBSY`). Returns the number of bytes.
///
/// # Panics
///
/// If the file cannot be written.
pub fn make_executable(path: &Path, contents: &mut impl Read) -> u64 {
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    let bytes = io::copy(contents, &mut writer.stdin.take().unwrap()).unwrap();
    assert!(writer.wait().unwrap().success());
    bytes
}
