//! A process whose first thread has ended, which the kernel shows as a zombie that still runs.

use std::process::{Command, Stdio};

/// The command of a Python program whose first thread ends, while a worker with 32 MiB runs until
/// its standard input ends. It prints a line when the first thread has ended.
#[must_use]
pub fn first_thread_ends() -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("first_thread_ends.py")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}
