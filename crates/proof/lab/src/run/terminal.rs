//! Connects this process's terminal to a shell in the guest.
//!
//! All keys are passed on, including Ctrl-C. The only exception is the escape of systemd-nspawn(1):
//! Ctrl-] three times within a second.

use std::io::{self, Read, Stdin, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use numapilot_lab_init::WindowSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::output::{Output, own_copy};
use crate::LabError;

/// Ctrl-].
const ESCAPE: u8 = 0x1d;
/// Number of escapes in a row ...
const TIMES: u32 = 3;
/// ... and the time limit for them.
const WITHIN: Duration = Duration::from_secs(1);

/// The terminal while the guest uses it. Dropping this restores its modes.
pub struct Terminal {
    terminal: Stdin,
    before: Termios,
    /// The other end is closed when the user escapes, or the terminal is closed.
    out: OwnedFd,
}

impl Terminal {
    /// Takes over the terminal, and connects it to a port of the guest.
    pub fn connect(port: UnixStream) -> Result<(Self, Output), LabError> {
        let failed = LabError::host::<rustix::io::Errno>;
        let terminal = io::stdin();
        let before = tcgetattr(&terminal).map_err(failed("use the terminal"))?;
        let (out, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(failed("make a pipe"))?;
        let mut keys = own_copy(&terminal)?;
        let mut to = port.try_clone().map_err(LabError::host("use the terminal"))?;
        let output = Output::copy(port, &io::stdout())?;
        thread::spawn(move || {
            pass_on(&mut keys, &mut to);
            drop(held);
        });
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw).map_err(failed("use the terminal"))?;
        Ok((Self { terminal, before, out }, output))
    }

    /// A descriptor that becomes readable when the user escapes, or the terminal is closed.
    pub fn out(&self) -> BorrowedFd<'_> {
        self.out.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // This fails only if the terminal is closed, which needs no restoring.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Passes keys on until the escape, or until either side ends.
fn pass_on(keys: &mut impl Read, to: &mut impl Write) {
    let mut escape = Escape::default();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = keys.read(&mut buffer) {
        if escape.is_in(&buffer[..read], Instant::now()) || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
}

/// The state of the escape sequence.
#[derive(Debug, Default)]
struct Escape {
    count: u32,
    since: Option<Instant>,
}

impl Escape {
    /// Whether these keys, pressed now, complete the sequence.
    fn is_in(&mut self, keys: &[u8], now: Instant) -> bool {
        for key in keys {
            let is_late = self.since.is_none_or(|since| now.duration_since(since) > WITHIN);
            if *key != ESCAPE {
                self.count = 0;
            } else if self.count == 0 || is_late {
                (self.count, self.since) = (1, Some(now));
            } else {
                self.count += 1;
            }
            if self.count == TIMES {
                return true;
            }
        }
        false
    }
}

/// The current size of the terminal.
pub fn size() -> Option<WindowSize> {
    let size = tcgetwinsize(io::stdin()).ok()?;
    Some(WindowSize { rows: size.ws_row, columns: size.ws_col })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_is_three_escapes_in_a_row_and_in_time() {
        let now = Instant::now();
        let at = |milliseconds| now + Duration::from_millis(milliseconds);
        let out = |keys: &[(&[u8], u64)]| {
            let mut escape = Escape::default();
            keys.iter().any(|(keys, time)| escape.is_in(keys, at(*time)))
        };
        assert!(out(&[(b"\x1d\x1d\x1d", 0)]));
        assert!(out(&[(b"ls\x1d", 0), (b"\x1d", 400), (b"\x1d", 900)]));
        assert!(!out(&[(b"\x1d\x1d", 0), (b"x\x1d", 10)]));
        assert!(!out(&[(b"\x1d", 0), (b"\x1d", 600), (b"\x1d", 1200)]));
        assert!(out(&[(b"\x1d", 0), (b"\x1d\x1d", 1200), (b"\x1d", 1300)]));
    }

    #[test]
    fn keys_before_the_way_out_are_passed_on() {
        let mut to = Vec::new();
        pass_on(&mut &b"ls\x03\r"[..], &mut to);
        assert_eq!(to, b"ls\x03\r");
    }
}
