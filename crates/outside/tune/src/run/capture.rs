//! Captures the program's output, standard output and error in the order written, up to a limit.
//!
//! The thread that waits for the program reads a single pipe, so there is nothing to join
//! afterwards. Descendants that outlive the program and keep the pipe open cause no delay. The pipes
//! of programs that run side by side are read together, so that none of them has to wait.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Bytes kept, from the end: programs print their results last.
const KEPT: usize = 1 << 20;

/// Output being read.
#[derive(Debug)]
pub struct Capture {
    pipe: PipeReader,
    kept: VecDeque<u8>,
    /// Whether something before that was dropped.
    is_cut: bool,
    open: bool,
    /// Bytes at the end that [`Capture::fresh_lines`] has not returned.
    fresh: usize,
}

impl Capture {
    /// A capture, and the end of the pipe for the program.
    pub fn new() -> io::Result<(Self, PipeWriter)> {
        let (pipe, writer) = io::pipe()?;
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok((Self { pipe, kept: VecDeque::new(), is_cut: false, open: true, fresh: 0 }, writer))
    }

    /// Reads what is available, at most one buffer.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1 << 16];
        match self.pipe.read(&mut buffer) {
            Ok(0) => self.open = false,
            Ok(n) => {
                self.kept.extend(&buffer[..n]);
                let excess = self.kept.len().saturating_sub(KEPT);
                self.is_cut |= excess > 0;
                self.kept.drain(..excess);
                self.fresh = (self.fresh + n).min(self.kept.len());
                return Ok(true);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(e) => return Err(e),
        }
        Ok(false)
    }

    /// Returns the whole lines that were read since the last call.
    pub fn fresh_lines(&mut self) -> String {
        let start = self.kept.len() - self.fresh;
        let kept = &self.kept.make_contiguous()[start..];
        let end = kept.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        self.fresh -= end;
        String::from_utf8_lossy(&kept[..end]).into_owned()
    }

    /// Returns what the program had written when it ended, in whole lines if that exceeds the limit.
    pub fn finish(mut self) -> io::Result<String> {
        // A pipe holds at most 1 MiB by default. A descendant that goes on writing must not keep
        // this loop running.
        for _ in 0..64 {
            if !self.read()? {
                break;
            }
        }
        let kept = self.kept.make_contiguous();
        // The first line may be the end of a longer one, and its numbers parts of others.
        let start = match kept.iter().position(|&byte| byte == b'\n') {
            Some(end) if self.is_cut => end + 1,
            None if self.is_cut => kept.len(),
            _ => 0,
        };
        Ok(String::from_utf8_lossy(&kept[start..]).into_owned())
    }
}

/// Reads the output of programs (pidfds) until one of them has ended, for at most `limit`. Returns
/// whether any has.
pub fn read_until_end<P: AsFd>(
    programs: &mut [(&P, &mut Capture)],
    limit: Duration,
) -> io::Result<bool> {
    let timeout = Timespec::try_from(limit).map_err(io::Error::other)?;
    let mut fds: Vec<PollFd<'_>> =
        programs.iter().map(|(program, _)| PollFd::new(*program, PollFlags::IN)).collect();
    let open: Vec<usize> = (0..programs.len()).filter(|&at| programs[at].1.open).collect();
    fds.extend(open.iter().map(|&at| PollFd::new(&programs[at].1.pipe, PollFlags::IN)));
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let (ends, outputs) = fds.split_at(programs.len());
    let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    let ended = ends.iter().any(is_ready);
    let printed: Vec<usize> =
        open.iter().zip(outputs).filter(|(_, fd)| is_ready(fd)).map(|(&at, _)| at).collect();
    drop(fds);
    // What an ended program has printed is read when it is waited for.
    if !ended {
        for at in printed {
            programs[at].1.read()?;
        }
    }
    Ok(ended)
}
