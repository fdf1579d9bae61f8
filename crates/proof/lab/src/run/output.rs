//! Copies the program's streams between the ports and this process's streams.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use numapilot_lab_init::{Order, frame};

use super::machine::Orders;
use crate::LabError;

/// The interval for checking signals while output is waited for.
const GLANCE: Duration = Duration::from_millis(50);

/// A stream of the program that is copied to a stream of this process.
pub struct Output {
    ended: Receiver<()>,
    /// Number of writes that have begun and that have ended: odd during a write.
    writes: Arc<AtomicU64>,
}

/// How the wait for the program's output ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Drained {
    /// All output is written.
    Complete,
    /// A signal to this process ended the wait.
    Signal(i32),
    /// The guest sent nothing for too long.
    Silent,
}

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
        let writes = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&writes);
        thread::spawn(move || {
            let mut buffer = Vec::new();
            let mut open = true;
            while frame::read(&mut port, &mut buffer).unwrap_or(false) {
                count.fetch_add(1, Ordering::Relaxed);
                if open && ours.write_all(&buffer).is_err() {
                    open = false;
                    orders.send(Order::Close { stderr });
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            // The run may be over already.
            let _ = done.send(());
        });
        Ok(Self { ended, writes })
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
        Ok(Self { ended, writes: Arc::default() })
    }

    /// Waits until all output is written, and returns whether that happened within the limit.
    pub fn wait(&self, limit: Duration) -> bool {
        !matches!(self.ended.recv_timeout(limit), Err(mpsc::RecvTimeoutError::Timeout))
    }

    fn is_writing(&self) -> bool {
        self.writes.load(Ordering::Relaxed) % 2 == 1
    }
}

/// Waits until the readers of all streams have taken all output. A reader may take as long as it
/// likes, but the guest must not be silent for longer than `limit`. `signal` returns a signal that
/// ends the wait.
pub fn drain(
    outputs: &[Output],
    limit: Duration,
    mut signal: impl FnMut() -> Result<Option<i32>, LabError>,
) -> Result<Drained, LabError> {
    for output in outputs {
        let mut last = (output.writes.load(Ordering::Relaxed), Instant::now());
        while !output.wait(GLANCE.min(limit)) {
            if let Some(signal) = signal()? {
                return Ok(Drained::Signal(signal));
            }
            let writes = output.writes.load(Ordering::Relaxed);
            if output.is_writing() || writes != last.0 {
                last = (writes, Instant::now());
            } else if last.1.elapsed() >= limit {
                return Ok(Drained::Silent);
            }
        }
    }
    Ok(Drained::Complete)
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

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A stream from a peer that plays the guest, and the reading end of its copy.
    fn output() -> (UnixStream, Output, File) {
        let (guest, port) = UnixStream::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (control, _) = UnixStream::pair().unwrap();
        let output = Output::copy(port, &writer, false, Orders::to(&control).unwrap()).unwrap();
        (guest, output, reader.into())
    }

    #[test]
    fn all_output_is_waited_for() {
        let (mut guest, output, mut reader) = output();
        frame::write(&mut guest, b"text").unwrap();
        frame::write(&mut guest, b"").unwrap();
        let drained = drain(std::slice::from_ref(&output), LONG, || Ok(None)).unwrap();
        assert_eq!(drained, Drained::Complete);
        let mut text = [0; 4];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"text");
    }

    #[test]
    fn a_silent_guest_ends_the_wait() {
        let (mut guest, output, _reader) = output();
        // A frame that is incomplete.
        guest.write_all(&[9, 0, 0, 0, b'x']).unwrap();
        let limit = Duration::from_millis(20);
        let drained = drain(&[output], limit, || Ok(None)).unwrap();
        assert_eq!(drained, Drained::Silent);
    }

    #[test]
    fn a_guest_that_is_gone_ends_the_wait() {
        let (guest, output, _reader) = output();
        drop(guest);
        assert_eq!(drain(&[output], LONG, || Ok(None)).unwrap(), Drained::Complete);
    }

    #[test]
    fn a_slow_reader_is_waited_for_until_a_signal() {
        let (mut guest, output, _reader) = output();
        thread::spawn(move || {
            // More than the pipe holds.
            (0..64).try_for_each(|_| frame::write(&mut guest, &[b'x'; frame::LONGEST]))
        });
        let deadline = Instant::now() + LONG;
        // In a write that stays the same for a while, the pipe is full.
        let mut same = (0, 0);
        while same.1 < 20 {
            assert!(Instant::now() < deadline, "the pipe never fills");
            thread::sleep(Duration::from_millis(1));
            let writes = output.writes.load(Ordering::Relaxed);
            let again = output.is_writing() && writes == same.0;
            same = (writes, if again { same.1 + 1 } else { 0 });
        }
        let mut left = 5;
        let signal = || {
            left -= 1;
            Ok((left == 0).then_some(libc::SIGTERM))
        };
        let drained = drain(&[output], Duration::from_millis(1), signal).unwrap();
        assert_eq!(drained, Drained::Signal(libc::SIGTERM));
    }
}
