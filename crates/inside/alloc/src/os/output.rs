//! Text without allocation: a line of fixed length, and a buffer in front of a sink.

use core::ffi::CStr;
use core::fmt::{self, Write};

use crate::os::kernel;

/// Text of at most `N` bytes; the rest is omitted.
pub struct Line<const N: usize> {
    text: [u8; N],
    length: usize,
}

impl<const N: usize> Line<N> {
    /// An empty line.
    pub const fn new() -> Self {
        Self { text: [0; N], length: 0 }
    }

    /// The bytes that were written.
    pub fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Appends all of the text, or returns the error number of a path that is too long.
    pub fn append_all(&mut self, text: &[u8]) -> Result<(), i32> {
        if self.append(text) == text.len() { Ok(()) } else { Err(libc::ENAMETOOLONG) }
    }

    /// Terminates it as a C string, if there is room.
    pub fn c_str(&mut self) -> Result<&CStr, i32> {
        self.append_all(b"\0")?;
        self.length -= 1;
        CStr::from_bytes_until_nul(&self.text).map_err(|_| libc::EINVAL)
    }

    /// Appends as many bytes as fit; returns their number.
    fn append(&mut self, text: &[u8]) -> usize {
        let room = &mut self.text[self.length..];
        let length = room.len().min(text.len());
        room[..length].copy_from_slice(&text[..length]);
        self.length += length;
        length
    }
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append(text.as_bytes());
        Ok(())
    }
}

/// Accepts the bytes of an [`Output`], or refuses them with an error number.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), i32>;

/// A buffer in front of a sink. Call [`Self::finish`] at the end.
pub struct Output<'a> {
    sink: Sink<'a>,
    line: Line<1024>,
    refused: Option<i32>,
}

impl<'a> Output<'a> {
    /// An empty buffer.
    pub fn new(sink: Sink<'a>) -> Self {
        Self { sink, line: Line::new(), refused: None }
    }

    /// Passes the rest to the sink; returns the sink's first error.
    pub fn finish(mut self) -> Result<(), i32> {
        self.flush();
        self.refused.map_or(Ok(()), Err)
    }

    /// Writes bytes that need not be text.
    pub fn write_bytes(&mut self, mut bytes: &[u8]) -> fmt::Result {
        while !bytes.is_empty() {
            let taken = self.line.append(bytes);
            bytes = &bytes[taken..];
            if !bytes.is_empty() {
                self.flush();
            }
        }
        if self.refused.is_some() { Err(fmt::Error) } else { Ok(()) }
    }

    fn flush(&mut self) {
        if self.refused.is_none() {
            self.refused = (self.sink)(self.line.bytes()).err();
        }
        self.line.length = 0;
    }
}

impl Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_bytes(text.as_bytes())
    }
}

/// Writes a line to standard error.
pub fn complain(message: fmt::Arguments<'_>) {
    let mut line = Line::<512>::new();
    let _ = writeln!(line, "numapilot: {message}");
    let _ = kernel::write(libc::STDERR_FILENO, line.bytes());
}

/// An amount of memory with its unit: four digits at most.
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut line = Line::<24>::new();
        let mut unit = 0;
        let mut tenths = self.0 as u128 * 10;
        while tenths >= 10_240 && unit + 1 < UNITS.len() {
            tenths /= 1024;
            unit += 1;
        }
        if unit == 0 || tenths >= 1000 {
            write!(line, "{} {}", tenths / 10, UNITS[unit])?;
        } else {
            write!(line, "{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])?;
        }
        f.pad(core::str::from_utf8(line.bytes()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::{String, ToString};
    use std::vec::Vec;

    use super::*;

    #[test]
    fn amounts_have_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (100 << 10, "100 KiB"),
            ((1 << 20) - 1, "1023 KiB"),
            (5 << 30, "5.0 GiB"),
            (usize::MAX, "16777215 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn long_text_goes_through_in_pieces() {
        let mut got = Vec::new();
        let mut sink = |bytes: &[u8]| {
            got.extend_from_slice(bytes);
            Ok(())
        };
        let mut output = Output::new(&mut sink);
        let text: String = "aé".repeat(2000);
        assert!(output.write_str(&text).is_ok());
        assert!(output.finish().is_ok());
        assert_eq!(got, text.as_bytes());
    }

    #[test]
    fn the_first_error_is_kept() {
        let mut sink = |_: &[u8]| Err(libc::ENOSPC);
        let mut output = Output::new(&mut sink);
        let _ = write!(output, "text");
        assert_eq!(output.finish(), Err(libc::ENOSPC));
    }
}
