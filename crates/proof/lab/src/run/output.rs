//! The program's streams: QEMU inherits those of this process.
//!
//! QEMU runs in a process group of its own, which may not read a terminal. So a stream that is a
//! terminal is copied to and from a socket.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::LabError;
use crate::descriptor::{inherit, pair};

/// A stream of the program that is copied to a stream of this process; reports its end.
pub struct Output(Receiver<()>);

impl Output {
    /// Copies bytes as they are until the guest's end is closed.
    pub fn copy(mut from: UnixStream, ours: &impl AsFd) -> Result<Self, LabError> {
        let mut ours = own_copy(ours)?;
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            // If the terminal is closed, the reader of its keys notices that.
            let _ = io::copy(&mut from, &mut ours);
            let _ = done.send(());
        });
        Ok(Self(ended))
    }

    /// Waits until everything is copied; returns whether that happened within the limit.
    pub fn wait(&self, limit: Duration) -> bool {
        !matches!(self.0.recv_timeout(limit), Err(mpsc::RecvTimeoutError::Timeout))
    }
}

/// The descriptor that QEMU inherits as the program's standard input.
pub fn input() -> Result<OwnedFd, LabError> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return inherited(&stdin);
    }
    let (ours, theirs) = pair()?;
    let mut from = own_copy(&stdin)?;
    thread::spawn(move || {
        // The guest's end is closed when the guest has ended.
        let _ = io::copy(&mut from, &mut &ours);
        let _ = ours.shutdown(std::net::Shutdown::Write);
        // Keeps the socket open until the guest ends.
        let _ = io::copy(&mut &ours, &mut io::sink());
    });
    Ok(theirs)
}

/// The descriptor that QEMU inherits as standard output or error, and the copier if `ours` is a
/// terminal.
pub fn output(ours: &(impl AsFd + IsTerminal)) -> Result<(OwnedFd, Option<Output>), LabError> {
    if !ours.is_terminal() {
        return Ok((inherited(ours)?, None));
    }
    let (from, theirs) = pair()?;
    Ok((theirs, Some(Output::copy(from, ours)?)))
}

/// A duplicate descriptor of a stream that QEMU inherits.
fn inherited(stream: &impl AsFd) -> Result<OwnedFd, LabError> {
    let copy = OwnedFd::from(own_copy(stream)?);
    inherit(&copy)?;
    Ok(copy)
}

/// A duplicate descriptor of a stream: unbuffered, and without a lock that others wait for.
pub fn own_copy(stream: &impl AsFd) -> Result<File, LabError> {
    let copy = stream.as_fd().try_clone_to_owned();
    copy.map(File::from).map_err(LabError::host("use the standard streams"))
}
