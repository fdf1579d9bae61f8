//! The `numapilot-lab` program: emulated machines, built-in workloads and the papers' experiments.
//!
//! `numapilot lab`, `numapilot bench` and `numapilot study` execute it, so its help and its
//! messages show that spelling. This file parses and dispatches; every verb is a folder in
//! `verbs/`.

#![forbid(unsafe_code)]

mod child;
mod jobs;
mod programs;
mod verbs;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use numapilot_cli_kit::program::{self, Program};
use numapilot_cli_kit::terminal::{ColorChoice, Terminal};
use numapilot_lab::LabError;

use crate::verbs::Verb;

/// Emulates NUMA machines, runs workloads on them, and repeats the papers' experiments.
#[derive(Parser)]
#[command(
    name = "numapilot-lab",
    bin_name = "numapilot",
    version,
    override_usage = "numapilot-lab [OPTIONS] <COMMAND>",
    max_term_width = 100
)]
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

    fn status(error: &anyhow::Error) -> Option<u8> {
        error.downcast_ref().map(LabError::exit_status)
    }
}

fn main() -> ExitCode {
    program::main::<Cli>()
}
