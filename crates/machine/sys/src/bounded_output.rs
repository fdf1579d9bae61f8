//! Runs a program whose output is short and soon complete, such as that of `--version`. A program
//! that hangs or prints without end is killed, with its process group, after a time limit.

use std::io::{self, PipeReader, Read};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::process::PidFd;
use crate::spawn::Steps;

/// Time in which a program reports its version or the like, also on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Runs a command without standard input and returns its output. Of each stream, at most what a
/// pipe holds (64 KiB) is returned.
///
/// # Errors
/// `TimedOut` if the program has not ended within the limit, which it does not if it prints more
/// than a pipe holds; else those of starting it.
pub fn bounded_output(mut command: Command, limit: Duration) -> io::Result<Output> {
    let (stdout, out) = io::pipe()?;
    let (stderr, err) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let end_with_parent = Some(libc::SIGKILL);
    Steps { new_group: true, end_with_parent, ..Steps::default() }.install(&mut command);
    let mut child = command.spawn()?;
    let pid = child.id().cast_signed();
    let ended = PidFd::open(pid).and_then(|fd| fd.ended_within(Some(limit)));
    // Before the child is reaped: until then, its number is the group's.
    if let Some(group) = Pid::from_raw(pid) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    if !ended? {
        let text = format!("it did not end within {} s", limit.as_secs());
        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
    }
    Ok(Output { status, stdout: buffered(stdout)?, stderr: buffered(stderr)? })
}

/// The bytes that are in a pipe. It does not wait for more, which descendants that have left the
/// group could write.
fn buffered(mut pipe: PipeReader) -> io::Result<Vec<u8>> {
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
    let mut bytes = Vec::new();
    match pipe.read_to_end(&mut bytes) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> io::Result<Output> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        bounded_output(command, limit)
    }

    #[test]
    fn both_streams_and_the_status_are_returned() {
        let output = run("echo out; echo err >&2; exit 3", Duration::from_secs(60)).unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_program_that_hangs_or_prints_without_end_is_ended_with_its_children() {
        for script in ["sleep 600", "sleep 600 & wait", "yes"] {
            let error = run(script, Duration::from_millis(100)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{script}");
        }
    }

    /// It keeps the pipe open, so waiting for its end would take ten minutes.
    #[test]
    fn a_descendant_that_stays_is_not_waited_for() {
        let output = run("setsid sleep 600 & echo $!", Duration::from_secs(60)).unwrap();
        let pid: i32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        PidFd::open(pid).unwrap().signal(libc::SIGKILL).unwrap();
    }
}
