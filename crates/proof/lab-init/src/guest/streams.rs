//! The program's input and output between its pipes and the ports.
//!
//! Pipes, and not the ports themselves: a port can be opened once, and programs reopen
//! `/dev/stderr`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use numapilot_lab_init::frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Trouble;

/// How often a stream is looked at whose program has ended, while others hold it open.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Copies what a program prints to a port.
pub struct Outgoing {
    copier: JoinHandle<()>,
    closed: Arc<AtomicBool>,
}

impl Outgoing {
    /// Starts copying; returns the end that the program writes to. `ended` tells that the
    /// program is gone: what others of its kind print later is lost, as it would be to
    /// whoever waited for the program.
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

    /// Set when nobody reads any more: then the program gets SIGPIPE, as it would without
    /// a port between.
    pub fn closer(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    /// Waits until all of it has been handed to the host.
    pub fn finish(self) {
        // A copier that panicked has said so on the console.
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

/// Copies what the host sends to the program; returns the end that the program reads.
pub fn incoming(mut port: File) -> Result<OwnedFd, Trouble> {
    let (read, write) = pipe()?;
    thread::spawn(move || {
        let (mut pipe, mut buffer) = (File::from(write), Vec::new());
        while frame::read(&mut port, &mut buffer).unwrap_or(false) {
            // A program that has closed its input wants no more of it.
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
