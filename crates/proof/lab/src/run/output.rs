//! The program's streams between their ports and this process's own.

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

/// A stream of the program that is being copied to one of ours.
pub struct Output(Receiver<()>);

impl Output {
    /// Copies from a port until the stream ends. When nobody reads ours any more, the
    /// program is told.
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

    /// Copies bytes as they are, from a virtual console: their end is that of the machine.
    pub fn of_console(mut port: UnixStream, ours: &impl AsFd) -> Result<Self, LabError> {
        let mut ours = own_copy(ours)?;
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            // A terminal that is gone is noticed by whoever reads its keys.
            let _ = std::io::copy(&mut port, &mut ours);
            let _ = done.send(());
        });
        Ok(Self(ended))
    }

    /// Waits until everything is out; whether it was in time.
    pub fn wait(&self, limit: Duration) -> bool {
        !matches!(self.0.recv_timeout(limit), Err(mpsc::RecvTimeoutError::Timeout))
    }
}

/// Sends our input to a port, to its end. The port stays open for as long as the caller has
/// it: a guest takes a closed one for a host that is not there.
pub fn feed(port: &UnixStream) -> Result<(), LabError> {
    let mut ours = own_copy(&std::io::stdin())?;
    let mut port = port.try_clone().map_err(LabError::host("use the standard streams"))?;
    thread::spawn(move || {
        let mut buffer = vec![0; frame::LONGEST];
        loop {
            // Input that cannot be read has ended.
            let read = ours.read(&mut buffer).unwrap_or(0);
            if frame::write(&mut port, &buffer[..read]).is_err() || read == 0 {
                break;
            }
        }
    });
    Ok(())
}

/// A descriptor of its own for a stream: unbuffered, and no lock that others wait for.
pub fn own_copy(stream: &impl AsFd) -> Result<File, LabError> {
    let copy = stream.as_fd().try_clone_to_owned();
    copy.map(File::from).map_err(LabError::host("use the standard streams"))
}
