//! The main function of a program: parse, run, say once what went wrong, choose the exit status.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use numapilot_place::PlaceError;
use rustix::process::{Resource, getrlimit};

use crate::terminal::{ColorChoice, Terminal, is_broken_pipe};

/// numapilot's own failure, as env(1) and timeout(1) have it: never mistaken for the
/// status of the program it runs.
pub const OWN_FAILURE: u8 = 125;

/// Below this the stack overflows while the options are read.
const LEAST_STACK: u64 = 256 << 10;

/// The command line of a program.
pub trait Program: Parser {
    /// When colours are used.
    fn color(&self) -> ColorChoice;

    /// Does what was asked for.
    ///
    /// # Errors
    /// numapilot's own failures, each with cause and remedy; the status of a program that
    /// was run is the `ExitCode`.
    fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode>;

    /// The exit status of an error that only this program knows.
    fn status(_error: &anyhow::Error) -> Option<u8> {
        None
    }
}

/// Runs the program; its exit status.
#[must_use]
pub fn main<P: Program>() -> ExitCode {
    let limit = getrlimit(Resource::Stack).current;
    match limit.filter(|bytes| *bytes < LEAST_STACK) {
        Some(bytes) => too_little_stack(bytes),
        None => run::<P>(),
    }
}

/// A function of its own, whose stack is small.
#[inline(never)]
fn too_little_stack(bytes: u64) -> ExitCode {
    // Nothing can be done about a closed stderr.
    let _ = writeln!(
        std::io::stderr(),
        "numapilot: error: the stack may have {} KiB only (ulimit -s); numapilot needs {} KiB: \
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
            let ok = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // Nothing can be done about a closed stderr.
            let _ = error.print();
            return if ok { ExitCode::SUCCESS } else { ExitCode::from(OWN_FAILURE) };
        }
    };
    numapilot_place::guard::enable();
    let terminal = Terminal::new(program.color());
    match program.run(&terminal) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal.error(&error);
            let status = error.downcast_ref().map(PlaceError::exit_status);
            ExitCode::from(status.or(P::status(&error)).unwrap_or(OWN_FAILURE))
        }
    }
}
