//! The terminal while `top` uses it: no echo, no line buffering, and the alternate screen. It is
//! always put back.
//!
//! Keys are read here and not by crossterm, because crossterm's wait for keys does not return once
//! the terminal has hung up.

use std::io::{self, Write, stdin};
use std::time::Duration;

use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const ESCAPE: u8 = 0x1b;
/// Longest wait for the rest of an arrow key's sequence, even over a slow line.
const SEQUENCE: Duration = Duration::from_millis(25);

/// The wish that a key expresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Quit,
    Pause,
    Sort,
}

/// The terminal.
pub struct Window(());

impl Window {
    /// Takes over the terminal.
    pub fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        let window = Self(());
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(window)
    }

    /// The number of columns and lines.
    pub fn size(&self) -> (u16, u16) {
        size().unwrap_or((80, 24))
    }

    /// Draws these lines, which must fit.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let plain = anstream::AutoStream::choice(&out) == anstream::ColorChoice::Never;
        for (row, line) in lines.iter().enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(out, cursor::MoveTo(0, row))?;
            if plain {
                write!(out, "{}", anstream::adapter::strip_str(line))?;
            } else {
                write!(out, "{line}")?;
            }
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()
    }

    /// Waits for a key, for at most `limit`. A terminal that has hung up gives no further wishes.
    pub fn wish(&self, limit: Duration) -> io::Result<Option<Wish>> {
        match wait(limit)? {
            Input::None => return Ok(None),
            Input::HungUp => return Ok(Some(Wish::Quit)),
            Input::Keys => {}
        }
        let mut keys = [0; 64];
        let mut length = match rustix::io::read(stdin(), &mut keys) {
            Ok(0) | Err(Errno::IO) => return Ok(Some(Wish::Quit)),
            Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
            read => read?,
        };
        if keys[..length] == [ESCAPE] && wait(SEQUENCE)? == Input::Keys {
            // Further bytes belong to the sequence.
            length += rustix::io::read(stdin(), &mut keys[1..]).unwrap_or(0);
        }
        Ok(wish_of(&keys[..length]))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    None,
    Keys,
    HungUp,
}

/// Waits for the terminal, for at most `limit`.
fn wait(limit: Duration) -> io::Result<Input> {
    let stdin = stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    // A limit too long for the kernel's type means no limit.
    let limit = Timespec::try_from(limit).ok();
    match poll(&mut fds, limit.as_ref()) {
        // A signal arrived; the caller handles it.
        Ok(0) | Err(Errno::INTR) => return Ok(Input::None),
        waited => waited?,
    };
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(if fds[0].revents().intersects(gone) { Input::HungUp } else { Input::Keys })
}

/// The wish of the first key that has a meaning. A sequence of several bytes that begins with
/// Escape is another key, or one with Alt.
fn wish_of(keys: &[u8]) -> Option<Wish> {
    if keys.len() > 1 && keys[0] == ESCAPE {
        return None;
    }
    keys.iter().find_map(|key| match key {
        b'q' | &ESCAPE | &CTRL_C | &CTRL_D => Some(Wish::Quit),
        b'p' | b' ' => Some(Wish::Pause),
        b's' => Some(Wish::Sort),
        _ => None,
    })
}

impl Drop for Window {
    fn drop(&mut self) {
        // A terminal that is gone cannot be put back.
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_what_is_none() {
        for keys in ["q", "\x03", "\x04", "\x1b", "xq"] {
            assert_eq!(wish_of(keys.as_bytes()), Some(Wish::Quit), "{keys:?}");
        }
        assert_eq!(wish_of(b" "), Some(Wish::Pause));
        assert_eq!(wish_of(b"s"), Some(Wish::Sort));
        // Up and Alt-q.
        for keys in ["\x1b[A", "\x1bq", "", "x"] {
            assert_eq!(wish_of(keys.as_bytes()), None, "{keys:?}");
        }
    }
}
