//! Messages on standard error, and the end of the process where going on would corrupt
//! memory silently, later and elsewhere.

use core::fmt::{self, Write};

use crate::kernel;

/// A line of text in a fixed buffer: nothing may be allocated here.
struct Line {
    text: [u8; 256],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.length..];
        let length = room.len().min(text.len());
        room[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

/// A variable has a value that is not known.
pub fn unknown_value(name: &str, value: &[u8], known: [&[u8]; 2]) {
    let text = |bytes| core::str::from_utf8(bytes).unwrap_or("(not text)");
    let mut line = Line { text: [0; 256], length: 0 };
    let _ = writeln!(
        line,
        "numapilot: {name}={} is ignored: it must be {} or {}",
        text(value),
        text(known[0]),
        text(known[1])
    );
    let _ = kernel::write(2, &line.text[..line.length]);
}

/// The program freed, or asked about, a pointer that it may not.
#[cold]
pub fn bad_free(pointer: usize, cause: &str) -> ! {
    let mut line = Line { text: [0; 256], length: 0 };
    let _ = writeln!(line, "numapilot: bad pointer {pointer:#x} in free or realloc: {cause}");
    let _ = kernel::write(2, &line.text[..line.length]);
    // SAFETY: takes nothing and does not return.
    unsafe { libc::abort() }
}

/// A C++ program without a way to throw has no memory.
#[cold]
pub fn out_of_memory() -> ! {
    let _ = kernel::write(2, b"numapilot: out of memory in operator new\n");
    // SAFETY: takes nothing and does not return.
    unsafe { libc::abort() }
}
