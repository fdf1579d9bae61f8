//! Captures the program's output, standard output and error in the order written, up to a limit.
//!
//! The thread that waits for the program reads a single pipe, so there is nothing to join
//! afterwards. Descendants that outlive the program and keep the pipe open cause no delay.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Bytes kept, from the end: programs print their results last.
const KEPT: usize = 1 << 20;

/// Output being read.
pub struct Capture {
    pipe: PipeReader,
    kept: VecDeque<u8>,
    open: bool,
}

impl Capture {
    /// A capture, and the end of the pipe for the program.
    pub fn new() -> io::Result<(Self, PipeWriter)> {
        let (pipe, writer) = io::pipe()?;
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok((Self { pipe, kept: VecDeque::new(), open: true }, writer))
    }

    /// Reads until `program` (a pidfd) becomes readable, for at most `limit`. Returns whether it
    /// did.
    pub fn read_until_end(&mut self, program: &impl AsFd, limit: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(limit).map_err(io::Error::other)?;
        let mut fds = vec![PollFd::new(program, PollFlags::IN)];
        if self.open {
            fds.push(PollFd::new(&self.pipe, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let ended = !fds[0].revents().is_empty();
        let output = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if output && !ended {
            self.read()?;
        }
        Ok(ended)
    }

    /// Reads what is available, at most one buffer.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1 << 16];
        match self.pipe.read(&mut buffer) {
            Ok(0) => self.open = false,
            Ok(n) => {
                self.kept.extend(&buffer[..n]);
                self.kept.drain(..self.kept.len().saturating_sub(KEPT));
                return Ok(true);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(e) => return Err(e),
        }
        Ok(false)
    }

    /// Returns what the program had written when it ended.
    pub fn finish(mut self) -> io::Result<String> {
        // A pipe holds at most 1 MiB by default. A descendant that goes on writing must not keep
        // this loop running.
        for _ in 0..64 {
            if !self.read()? {
                break;
            }
        }
        Ok(String::from_utf8_lossy(self.kept.make_contiguous()).into_owned())
    }
}
