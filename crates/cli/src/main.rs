//! The `numapilot` program: arguments in; tables, JSON and pictures out.
//!
//! This file parses and dispatches; every verb is one file or folder in `verbs/`.

#![forbid(unsafe_code)]

mod elsewhere;
mod period;
mod sink;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use numapilot_cli_kit::program::{self, OWN_FAILURE, Program};
use numapilot_cli_kit::terminal::{ColorChoice, Terminal};

use crate::verbs::Verb;

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

impl Program for Cli {
    fn color(&self) -> ColorChoice {
        self.color
    }

    fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        self.verb.run(terminal, Self::command)
    }
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if elsewhere::is_asked_for(&words) {
        // It returns only on failure.
        Terminal::new(ColorChoice::Auto).error(&elsewhere::execute());
        return ExitCode::from(OWN_FAILURE);
    }
    program::main::<Cli>()
}
