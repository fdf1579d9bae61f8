//! Serves the calls of the guest's process 1: the program's input and output, and the messages to
//! and from the host. The guest does not execute while a call is served, so the host's timing has
//! no effect on the guest.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use numapilot_lab_init::Report;
use numapilot_lab_init::mailbox::{MOST, Mailbox, Operation};
use numapilot_sys::shared::SharedWords;

/// The mailbox and the descriptors; see the module documentation.
#[derive(Debug)]
pub struct Ports {
    mailbox: Mailbox<SharedWords>,
    stdin: File,
    stdout: File,
    stderr: File,
    control: File,
}

impl Ports {
    /// The ports with these descriptors: standard input, output, error, and the control socket.
    ///
    /// # Safety
    /// The descriptors are open, and nothing else closes them.
    pub unsafe fn new(memory: SharedWords, descriptors: [i32; 4]) -> Self {
        // SAFETY: by contract.
        let [stdin, stdout, stderr, control] =
            descriptors.map(|descriptor| unsafe { File::from_raw_fd(descriptor) });
        Self { mailbox: Mailbox::create(memory), stdin, stdout, stderr, control }
    }

    /// Serves the pending call of process 1. If the call reports the end of the program, `ends` is
    /// called before the report is passed on, because the host may end QEMU when it receives it.
    pub fn serve(&self, ends: impl FnOnce()) {
        self.mailbox.serve(|operation, data| match operation {
            Operation::Stdout => write(&self.stdout, data),
            Operation::Stderr => write(&self.stderr, data),
            Operation::Stdin => read(&self.stdin),
            Operation::Report => {
                let line = String::from_utf8_lossy(data);
                if let Ok(Report::Exited(_) | Report::Failed(_)) = line.trim_end().parse() {
                    ends();
                }
                write(&self.control, data)
            }
            Operation::Orders => read(&self.control),
        });
    }
}

/// Writes all data, however long that takes. The reply is empty.
fn write(mut to: &File, mut data: &[u8]) -> io::Result<Vec<u8>> {
    while !data.is_empty() {
        match to.write(data) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => data = &data[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The descriptor may have been set to non-blocking mode by a process that shares it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(to, libc::POLLOUT, -1)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Vec::new())
}

/// Reads the available data; none at the end of the input.
///
/// # Errors
/// `EAGAIN` if no data is available yet.
fn read(mut from: &File) -> io::Result<Vec<u8>> {
    if !wait(from, libc::POLLIN, 0)? {
        return Err(io::Error::from_raw_os_error(libc::EAGAIN));
    }
    let mut data = vec![0; MOST];
    let length = from.read(&mut data)?;
    data.truncate(length);
    Ok(data)
}

/// Waits until a descriptor is ready, for at most this many milliseconds (-1: without limit).
fn wait(file: &File, events: i16, milliseconds: i32) -> io::Result<bool> {
    let mut descriptor = libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 };
    // SAFETY: the array has one element, which outlives the call.
    match unsafe { libc::poll(&raw mut descriptor, 1, milliseconds) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        ready => Ok(ready > 0),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;

    use numapilot_lab_init::mailbox::BYTES;

    use super::*;

    #[test]
    fn calls_reach_the_streams() {
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(BYTES).unwrap();
        let map = || SharedWords::map(&memory).unwrap();
        let pairs = [(); 4].map(|()| UnixStream::pair().unwrap());
        let descriptors = [0, 1, 2, 3].map(|at| pairs[at].1.try_clone().unwrap().into_raw_fd());
        // SAFETY: new descriptors, used nowhere else.
        let ports = unsafe { Ports::new(map(), descriptors) };
        let guest = Mailbox::open(map()).unwrap();
        let call = |operation, data: &[u8]| {
            let mut ended = false;
            let reply = guest.call(operation, data, || ports.serve(|| ended = true));
            reply.map(|reply| (String::from_utf8(reply).unwrap(), ended))
        };
        let heard = |at: usize| {
            let mut buffer = [0; 100];
            let length = (&pairs[at].0).read(&mut buffer).unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        };
        call(Operation::Stdout, b"out").unwrap();
        call(Operation::Stderr, b"err").unwrap();
        assert_eq!((heard(1), heard(2)), ("out".to_owned(), "err".to_owned()));
        let nothing = call(Operation::Stdin, &[]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        (&pairs[0].0).write_all(b"in").unwrap();
        assert_eq!(call(Operation::Stdin, &[]).unwrap().0, "in");
        (&pairs[3].0).write_all(b"signal 15\n").unwrap();
        assert_eq!(call(Operation::Orders, &[]).unwrap().0, "signal 15\n");
        assert!(!call(Operation::Report, b"started\n").unwrap().1);
        assert!(call(Operation::Report, b"exited 3\n").unwrap().1);
        assert_eq!(heard(3), "started\nexited 3\n");
        let [_, (ours, theirs), ..] = pairs;
        drop((ours, theirs));
        let gone = call(Operation::Stdout, b"more").unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }
}
