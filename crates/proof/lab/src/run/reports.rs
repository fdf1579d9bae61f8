//! Reads the guest's reports from the control socket. The guest's root user may send any text:
//! lines longer than any report are refused, and reading never waits for the rest of a line.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use numapilot_lab_init::{Failure, Report};

/// Exceeds the length of any report.
const LONGEST: usize = 16 << 10;
/// Number of characters shown of a line that is not a report.
const SHOWN: usize = 200;

/// The socket, and the incomplete line that was read so far.
pub struct Reports {
    port: UnixStream,
    pending: Vec<u8>,
}

impl Reports {
    pub const fn of(port: UnixStream) -> Self {
        Self { port, pending: Vec::new() }
    }

    /// Reads once, which blocks only if nothing is available; returns whether the socket is open.
    pub fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let length = self.port.read(&mut buffer)?;
        self.pending.extend(&buffer[..length]);
        Ok(length > 0)
    }

    /// The next complete report, or the text that the guest wrote instead.
    pub fn next(&mut self) -> Option<Result<Report, String>> {
        let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') else {
            let is_too_long = self.pending.len() > LONGEST;
            return is_too_long.then(|| {
                self.pending.clear();
                Err(format!(
                    "more than {LONGEST} bytes on its control port without the end of a line"
                ))
            });
        };
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        let text = String::from_utf8_lossy(&line);
        Some(match text.trim_end().parse() {
            Ok(Report::Failed(Failure { errno, what })) => {
                Ok(Report::Failed(Failure { errno, what: shown(&what) }))
            }
            Ok(report) => Ok(report),
            Err(what) => Err(shown(&what)),
        })
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

/// The start of a text from the guest, without control characters.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn ports() -> (UnixStream, Reports) {
        let (guest, host) = UnixStream::pair().unwrap();
        (guest, Reports::of(host))
    }

    #[test]
    fn reports_come_whole_whatever_the_pieces() {
        let (mut guest, mut reports) = ports();
        guest.write_all(b"started\nexi").unwrap();
        assert!(reports.read().unwrap());
        assert_eq!(reports.next(), Some(Ok(Report::Started)));
        assert_eq!(reports.next(), None);
        guest.write_all(b"ted 7\n").unwrap();
        assert!(reports.read().unwrap());
        assert_eq!(reports.next(), Some(Ok(Report::Exited(7))));
        drop(guest);
        assert!(!reports.read().unwrap());
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_nothing_grows() {
        let (mut guest, mut reports) = ports();
        let mut refused = None;
        for _ in 0..=LONGEST / 4096 {
            guest.write_all(&[b'x'; 4096]).unwrap();
            reports.read().unwrap();
            refused = refused.or(reports.next());
            assert!(reports.pending.len() <= LONGEST + 4096);
        }
        let message = refused.unwrap().unwrap_err();
        assert!(message.starts_with("more than 16384 bytes on its control port"), "{message}");
    }

    #[test]
    fn what_is_no_report_is_shown_in_short_and_without_escapes() {
        let (mut guest, mut reports) = ports();
        guest.write_all(format!("\x1b[2J{}\n", "y".repeat(3000)).as_bytes()).unwrap();
        guest.write_all(b"failed 0 \x1b[2Jgone\n").unwrap();
        reports.read().unwrap();
        let message = reports.next().unwrap().unwrap_err();
        assert!(
            message.len() < 300 && !message.contains('\x1b') && message.ends_with("..."),
            "{message}"
        );
        let failure = Failure { errno: 0, what: "[2Jgone...".to_owned() };
        assert_eq!(reports.next(), Some(Ok(Report::Failed(failure))));
    }
}
