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
    write_executable(path, contents)
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()))
}

fn write_executable(path: &Path, contents: &mut impl Read) -> io::Result<u64> {
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn()?;
    let input = writer.stdin.take();
    let bytes = input.map_or(Ok(0), |mut input| io::copy(contents, &mut input))?;
    let status = writer.wait()?;
    if status.success() { Ok(bytes) } else { Err(io::Error::other(status.to_string())) }
}
