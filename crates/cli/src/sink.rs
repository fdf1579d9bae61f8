//! What a verb writes while a program of the user's runs under it. A reader that goes away, or a
//! disk that is full, ends the output and not the program.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use numapilot_cli_kit::terminal::Terminal;

/// Where it goes.
enum To {
    Out,
    Err,
    File(PathBuf, File),
}

/// Output that may fail while a program runs.
pub struct Sink {
    terminal: Terminal,
    to: To,
    program_runs: bool,
    stopped: bool,
}

impl Sink {
    /// Standard output.
    pub const fn out(terminal: Terminal) -> Self {
        Self::to(terminal, To::Out)
    }

    /// Standard error.
    pub const fn err(terminal: Terminal) -> Self {
        Self::to(terminal, To::Err)
    }

    /// A file that is open, given with `-o`.
    pub const fn file(terminal: Terminal, path: PathBuf, file: File) -> Self {
        Self::to(terminal, To::File(path, file))
    }

    const fn to(terminal: Terminal, to: To) -> Self {
        Self { terminal, to, program_runs: false, stopped: false }
    }

    /// From now on a program of the user's runs under this process: what cannot be written is
    /// said once, nothing more is written, and the program goes on.
    pub fn program_runs(&mut self) {
        self.program_runs = true;
    }

    /// It has ended: what cannot be written from now on is an error again, unless that was said.
    pub fn program_ended(&mut self) {
        self.program_runs = false;
    }

    /// Writes a text, at once: the program may write to the same place, and whoever reads
    /// wants it now.
    ///
    /// # Errors
    /// When it cannot be written and no program of the user's runs.
    pub fn write(&mut self, text: &str) -> anyhow::Result<()> {
        if self.stopped {
            return Ok(());
        }
        let written = match &mut self.to {
            To::Out => put(&mut self.terminal.out(), text).context("standard output"),
            To::Err => put(&mut self.terminal.err(), text).context("standard error"),
            To::File(path, file) => {
                put(file, text).with_context(|| format!("-o {}", path.display()))
            }
        };
        let written = written.context("cannot write the figures");
        self.stopped = written.is_err();
        self.settle(written)
    }

    /// Says that something beside this output, such as a recording, cannot be written, once it
    /// is closed for that.
    ///
    /// # Errors
    /// As [`Sink::write`].
    pub fn settle(&self, written: anyhow::Result<()>) -> anyhow::Result<()> {
        match written {
            Err(error) if self.program_runs => {
                self.terminal.warn(format_args!(
                    "{error:#}; nothing more is written there, and the program is not affected"
                ));
                Ok(())
            }
            written => written,
        }
    }
}

fn put(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numapilot_cli_kit::terminal::ColorChoice;

    fn full() -> Sink {
        let path = PathBuf::from("/dev/full");
        let file = File::options().write(true).open(&path).unwrap();
        Sink::file(Terminal::new(ColorChoice::Never), path, file)
    }

    #[test]
    fn a_failed_write_is_an_error_only_where_no_program_runs() {
        let mut sink = full();
        let error = format!("{:#}", sink.write("x").unwrap_err());
        assert!(error.starts_with("cannot write the figures: -o /dev/full: No space"), "{error}");
        sink.program_runs();
        sink.write("x").unwrap();
        assert!(sink.stopped);
        sink.program_ended();
        sink.write("y").unwrap();
    }
}
