//! The `numapilot` binary: arguments in; tables, JSON and pictures out.
//!
//! This file parses and dispatches; every verb is one file in `verbs/`.

mod axis;
mod date;
mod file;
mod interruption;
mod itself;
mod period;
mod settle;
mod sink;
mod status_line;
mod svg;
mod terminal;
mod units;
mod verbs;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use numapilot_lab::LabError;
use numapilot_place::PlaceError;
use rustix::process::{Resource, getrlimit};

use crate::terminal::{ColorChoice, Terminal};
use crate::verbs::Verb;

/// numapilot's own failure, as env(1) and timeout(1) have it: never mistaken for the
/// status of the program it runs.
const OWN_FAILURE: u8 = 125;

/// Makes memory-hungry programs run faster on NUMA machines, and proves it.
#[derive(Parser)]
#[command(name = "numapilot", version, max_term_width = 100)]
struct Cli {
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,

    #[command(subcommand)]
    verb: Verb,
}

/// Below this the stack overflows while the options are read.
const LEAST_STACK: u64 = 256 << 10;

fn main() -> ExitCode {
    let limit = getrlimit(Resource::Stack).current;
    match limit.filter(|bytes| *bytes < LEAST_STACK) {
        Some(bytes) => too_little_stack(bytes),
        None => run(),
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
fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let ok = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // Nothing can be done about a closed stderr.
            let _ = error.print();
            return if ok { ExitCode::SUCCESS } else { ExitCode::from(OWN_FAILURE) };
        }
    };
    numapilot_place::guard::enable();
    let terminal = Terminal::new(cli.color);
    match cli.verb.run(&terminal) {
        Ok(code) => code,
        Err(error) if terminal::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal.error(&error);
            let place = error.downcast_ref().map(PlaceError::exit_status);
            let lab = error.downcast_ref().map(LabError::exit_status);
            ExitCode::from(place.or(lab).unwrap_or(OWN_FAILURE))
        }
    }
}
