//! The terminal while `top` has it: no echo, no lines, a screen of its own; put back whatever
//! happens.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Quit,
    Pause,
    Sort,
    /// The window has another size, or shall be drawn again.
    Redraw,
}

/// The terminal.
pub struct Window(());

impl Window {
    /// Takes the terminal.
    pub fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        let window = Self(());
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(window)
    }

    /// Columns and lines.
    pub fn size(&self) -> (u16, u16) {
        size().unwrap_or((80, 24))
    }

    /// Shows these lines, which fit.
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

    /// Waits for a key, at most so long.
    pub fn wish(&self, limit: Duration) -> io::Result<Option<Wish>> {
        match poll(limit) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            // A signal; whoever waits looks what it was.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(match read()? {
            Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => None,
            Event::Key(KeyEvent { code: KeyCode::Char('c' | 'd'), modifiers, .. })
                if modifiers.contains(KeyModifiers::CONTROL) =>
            {
                Some(Wish::Quit)
            }
            Event::Key(KeyEvent { code, .. }) => match code {
                KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Quit),
                KeyCode::Char('p' | ' ') => Some(Wish::Pause),
                KeyCode::Char('s') => Some(Wish::Sort),
                _ => None,
            },
            Event::Resize(..) => Some(Wish::Redraw),
            _ => None,
        })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
