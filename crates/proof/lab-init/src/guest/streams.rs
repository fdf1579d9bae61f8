//! Copies the program's input and output between its pipes and the ports.
//!
//! The program does not get the ports themselves, because a port can be opened only once, and
//! programs reopen `/dev/stderr`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use numapilot_lab_init::frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Trouble;

/// The interval for checking a stream whose program has ended while other processes hold it open.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Copies the program's output to a port.
pub struct Outgoing {
    copier: JoinHandle<()>,
    closed: Arc<AtomicBool>,
}

impl Outgoing {
    /// Starts copying, and returns the end that the program writes to. `ended` is set when the
    /// program is gone: later output of its children is lost, as it would be for a caller that
    /// waited for the program.
    pub fn start(port: File, ended: Arc<AtomicBool>) -> Result<(OwnedFd, Self), Trouble> {
        let (read, write) = pipe()?;
        let closed = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&closed);
        let copier = thread::spawn(move || {
            if let Err(error) = copy_out(File::from(read), port, &ended, &stop) {
                eprintln!("output is lost: {error}");
            }
        });
        Ok((write, Self { copier, closed }))
    }

    /// A flag to set when the reader is gone: then the program gets SIGPIPE, as it would with a
    /// plain pipe.
    pub fn closer(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    /// Waits until all output has been passed to the host.
    pub fn finish(self) {
        // A panic of the copying thread is on the console already.
        let _ = self.copier.join();
    }
}

fn copy_out(
    mut pipe: File,
    mut port: File,
    ended: &AtomicBool,
    closed: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; frame::LONGEST];
    while !closed.load(Ordering::Acquire) {
        let over = ended.load(Ordering::Acquire);
        let mut fds = [PollFd::new(&pipe, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&GLANCE))? > 0;
        if !ready && over {
            break;
        }
        if ready {
            match pipe.read(&mut buffer)? {
                0 => break,
                read => frame::write(&mut port, &buffer[..read])?,
            }
        }
    }
    drop(pipe);
    frame::write(&mut port, &[])
}

/// Copies the host's data to the program, and returns the end that the program reads.
pub fn incoming(mut port: File) -> Result<OwnedFd, Trouble> {
    let (read, write) = pipe()?;
    thread::spawn(move || {
        let (mut pipe, mut buffer) = (File::from(write), Vec::new());
        while frame::read(&mut port, &mut buffer).unwrap_or(false) {
            // The program has closed its input and needs no more of it.
            if pipe.write_all(&buffer).is_err() {
                break;
            }
        }
    });
    Ok(read)
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Trouble> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(Trouble::at("cannot make", "a pipe"))
}
