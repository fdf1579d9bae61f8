//! Copies the program's input and output between its pipes and the host.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

use numapilot_lab_init::mailbox::{MOST, Operation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Trouble;
use super::ports::Ports;

/// A thread that copies one output of the program to the host.
pub struct Outgoing(JoinHandle<()>);

impl Outgoing {
    /// Starts copying; returns the end of the pipe that the program writes to. When the other end
    /// of `ended` is closed, the program has ended: available output is still copied, but later
    /// output of other processes is lost, as it would be to a caller that waited for the program
    /// only.
    pub fn start(
        ports: Ports,
        stream: Operation,
        ended: OwnedFd,
    ) -> Result<(OwnedFd, Self), Trouble> {
        let (read, write) = pipe()?;
        let copier = thread::spawn(move || {
            if let Err(error) = copy_out(File::from(read), &ports, stream, &ended) {
                eprintln!("output is lost: {error}");
            }
        });
        Ok((write, Self(copier)))
    }

    /// Waits until all output has been passed to the host.
    pub fn finish(self) {
        // A panic of the copier was printed on the console.
        let _ = self.0.join();
    }
}

fn copy_out(mut pipe: File, ports: &Ports, stream: Operation, ended: &OwnedFd) -> io::Result<()> {
    let mut buffer = vec![0; MOST];
    let mut is_over = false;
    let mut is_lost = false;
    loop {
        let mut fds = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(ended, PollFlags::empty())];
        poll(&mut fds, is_over.then_some(&Timespec::default()))?;
        let [is_ready, gone] = fds.map(|fd| !fd.revents().is_empty());
        if is_ready {
            match pipe.read(&mut buffer)? {
                0 => return Ok(()),
                // Read on, so that the program neither waits nor is killed.
                _ if is_lost => {}
                read => match ports.write(stream, &buffer[..read]) {
                    Ok(()) => {}
                    // The host's reader has closed the stream. Closing the pipe sends SIGPIPE to a
                    // program that writes on, as it would without a copier.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                    // A full disk, for example. The program is told nothing, so the user is.
                    Err(error) => {
                        is_lost = true;
                        let name = if stream == Operation::Stdout { "output" } else { "messages" };
                        let line = format!(
                            "numapilot: warning: the program's {name} cannot be written and is \
                             lost from here on: {error}\n"
                        );
                        // Standard error may be what cannot be written.
                        let _ = ports.write(Operation::Stderr, line.as_bytes());
                    }
                },
            }
        } else if is_over {
            return Ok(());
        }
        is_over |= gone;
    }
}

/// Starts a thread that copies the host's input to the program; returns the end of the pipe that
/// the program reads from.
pub fn incoming(ports: Ports) -> Result<OwnedFd, Trouble> {
    let (read, write) = pipe()?;
    thread::spawn(move || {
        let mut pipe = File::from(write);
        while let Ok(bytes) = ports.read()
            && !bytes.is_empty()
        {
            // The program has closed its input.
            if pipe.write_all(&bytes).is_err() {
                break;
            }
        }
    });
    Ok(read)
}

/// Makes a pipe; returns its reading end and its writing end.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), Trouble> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(Trouble::at("cannot make", "a pipe"))
}
