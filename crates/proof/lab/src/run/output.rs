//! Copies the program's streams between the ports and this process's streams.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use numapilot_lab_init::{Order, frame};

use super::machine::Orders;
use crate::LabError;

/// A stream of the program that is copied to a stream of this process.
pub struct Output(Receiver<()>);

impl Output {
    /// Copies from a port until the stream ends. When the reader is gone, the guest is told, so the
    /// program gets SIGPIPE.
    pub fn copy(
        mut port: UnixStream,
        ours: &impl AsFd,
        stderr: bool,
        orders: Orders,
    ) -> Result<Self, LabError> {
        let mut ours = own_copy(ours)?;
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = Vec::new();
            let mut open = true;
            while frame::read(&mut port, &mut buffer).unwrap_or(false) {
                if open && ours.write_all(&buffer).is_err() {
                    open = false;
                    orders.send(Order::Close { stderr });
                }
            }
            // The run may be over already.
            let _ = done.send(());
        });
        Ok(Self(ended))
    }

    /// Copies bytes from a virtual console, whose stream ends only with the machine.
    pub fn of_console(mut port: UnixStream, ours: &impl AsFd) -> Result<Self, LabError> {
        let mut ours = own_copy(ours)?;
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            // The thread that reads the keys notices when the terminal is gone.
            let _ = std::io::copy(&mut port, &mut ours);
            let _ = done.send(());
        });
        Ok(Self(ended))
    }

    /// Waits until all output is written, and returns whether that happened within the limit.
    pub fn wait(&self, limit: Duration) -> bool {
        !matches!(self.0.recv_timeout(limit), Err(mpsc::RecvTimeoutError::Timeout))
    }
}

/// Sends standard input to a port until its end. The caller keeps the port open: the guest takes a
/// closed port for a host that has not connected yet.
pub fn feed(port: &UnixStream) -> Result<(), LabError> {
    let mut ours = own_copy(&std::io::stdin())?;
    let mut port = port.try_clone().map_err(LabError::host("use the standard streams"))?;
    thread::spawn(move || {
        let mut buffer = vec![0; frame::LONGEST];
        loop {
            // Unreadable input counts as ended.
            let read = ours.read(&mut buffer).unwrap_or(0);
            if frame::write(&mut port, &buffer[..read]).is_err() || read == 0 {
                break;
            }
        }
    });
    Ok(())
}

/// A duplicate descriptor of a stream: unbuffered, and without a lock that others wait for.
pub fn own_copy(stream: &impl AsFd) -> Result<File, LabError> {
    let copy = stream.as_fd().try_clone_to_owned();
    copy.map(File::from).map_err(LabError::host("use the standard streams"))
}
