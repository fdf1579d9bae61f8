//! The output of a verb while it runs a program of the user. If the reader goes away or the disk is
//! full, the output ends, but not the program.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use numapilot_cli_kit::file;
use numapilot_cli_kit::terminal::Terminal;

/// The destination.
enum To {
    Out,
    Err,
    File(PathBuf, File),
}

/// Output that may fail while a program runs.
pub struct Sink {
    terminal: Terminal,
    to: To,
    has_written: bool,
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

    /// A file of [`file::open`], given with `-o`. It keeps what is in it until the first write: a run
    /// that fails before loses nothing.
    pub const fn file(terminal: Terminal, path: PathBuf, file: File) -> Self {
        Self::to(terminal, To::File(path, file))
    }

    const fn to(terminal: Terminal, to: To) -> Self {
        Self { terminal, to, has_written: false, program_runs: false, stopped: false }
    }

    /// Call this when a program of the user starts. From then on, a failed write is reported once,
    /// nothing more is written, and the program continues.
    pub fn program_runs(&mut self) {
        self.program_runs = true;
    }

    /// Call this when the program has ended. From then on, a failed write is an error again, unless
    /// it was already reported.
    pub fn program_ended(&mut self) {
        self.program_runs = false;
    }

    /// Writes a text without buffering: the program may write to the same place, and the reader
    /// needs it now.
    ///
    /// # Errors
    /// Fails if the text cannot be written and no program of the user runs.
    pub fn write(&mut self, text: &str) -> anyhow::Result<()> {
        if self.stopped {
            return Ok(());
        }
        let written = match &mut self.to {
            To::Out => put(&mut self.terminal.out(), text).map_err(Into::into),
            To::Err => put(&mut self.terminal.err(), text).map_err(Into::into),
            To::File(path, file) => {
                let ready = if self.has_written { Ok(()) } else { file::empty(file) };
                let written = ready.and_then(|()| put(file, text));
                written.with_context(|| format!("cannot write the figures: -o {}", path.display()))
            }
        };
        self.has_written = true;
        self.stopped = written.is_err();
        self.settle(written)
    }

    /// Reports that another output, such as a recording, cannot be written; the caller has closed
    /// it.
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
