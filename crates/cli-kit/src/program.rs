//! The main function of a program: parse, run, print an error once, choose the exit status.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use numapilot_place::PlaceError;
use rustix::process::{Resource, getrlimit};

use crate::terminal::{ColorChoice, Terminal, is_broken_pipe};

/// Exit status of numapilot's own failures, as for env(1) and timeout(1): it is never mistaken for
/// the status of the program that it runs.
pub const OWN_FAILURE: u8 = 125;

/// With a smaller stack, it overflows while the options are parsed.
const LEAST_STACK: u64 = 256 << 10;

/// The command line of a program.
pub trait Program: Parser {
    /// When to use colours.
    fn color(&self) -> ColorChoice;

    /// Runs the command.
    ///
    /// # Errors
    /// numapilot's own failures, each with cause and remedy. The status of a program that was run
    /// is the `ExitCode`.
    fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode>;

    /// The exit status of an error that only this program knows.
    fn status(_error: &anyhow::Error) -> Option<u8> {
        None
    }
}

/// Runs the program and returns its exit status.
#[must_use]
pub fn main<P: Program>() -> ExitCode {
    let limit = getrlimit(Resource::Stack).current;
    match limit.filter(|bytes| *bytes < LEAST_STACK) {
        Some(bytes) => too_little_stack(bytes),
        None => run::<P>(),
    }
}

/// A separate function, to keep its stack frame small.
#[inline(never)]
fn too_little_stack(bytes: u64) -> ExitCode {
    // A failure to write to stderr cannot be reported.
    let _ = writeln!(
        std::io::stderr(),
        "numapilot: error: the stack is limited to {} KiB (ulimit -s); numapilot needs {} KiB: \
         raise the limit, and set it for the program alone with sh -c 'ulimit -s {}; exec ...'",
        bytes >> 10,
        LEAST_STACK >> 10,
        bytes >> 10
    );
    ExitCode::from(OWN_FAILURE)
}

#[inline(never)]
fn run<P: Program>() -> ExitCode {
    let program = match P::try_parse() {
        Ok(program) => program,
        Err(error) => {
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                return asked_for(&error);
            }
            // A failure to write to stderr cannot be reported.
            let _ = error.print();
            return ExitCode::from(OWN_FAILURE);
        }
    };
    numapilot_place::guard::enable();
    let terminal = Terminal::new(program.color());
    program.run(&terminal).unwrap_or_else(|error| failed::<P>(&terminal, &error))
}

/// Prints a help text or the version.
fn asked_for(text: &clap::Error) -> ExitCode {
    let terminal = Terminal::new(ColorChoice::Auto);
    let mut out = terminal.out();
    let written = write!(out, "{}", text.render().ansi()).and_then(|()| out.flush());
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            terminal.error(&error.into());
            ExitCode::from(OWN_FAILURE)
        }
    }
}

/// Reports an error and chooses the exit status.
fn failed<P: Program>(terminal: &Terminal, error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    terminal.error(error);
    let status = error.downcast_ref().map(PlaceError::exit_status);
    ExitCode::from(status.or(P::status(error)).unwrap_or(OWN_FAILURE))
}
