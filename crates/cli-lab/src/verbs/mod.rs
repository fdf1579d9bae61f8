//! One folder per verb: its arguments and what it prints.

use std::process::ExitCode;

use clap::{Command, Subcommand};
use numapilot_cli_kit::completions;
use numapilot_cli_kit::deferred::Deferred;
use numapilot_cli_kit::settle::Settle;
use numapilot_cli_kit::terminal::Terminal;

mod bench;
mod lab;
mod man;
mod study;

/// What the user wants done.
#[derive(Subcommand)]
pub enum Verb {
    /// Emulate NUMA machines and run programs on them.
    Lab(Deferred<lab::Args>),
    /// Run a built-in workload.
    Bench(Deferred<bench::Args>),
    /// Run the papers' tables and figures, compare, and show the results as one page.
    Study(Deferred<study::Args>),
    /// Print the completion script of a shell for numapilot-lab.
    Completions(Deferred<completions::Args>),
    /// Write the manual pages of lab, bench and study into a directory.
    Man(Deferred<man::Args>),
}

impl Verb {
    /// Does it; `command` is the whole command line's table.
    ///
    /// # Errors
    /// numapilot's own failures, each with cause and remedy; the status of a program that
    /// was run is the `ExitCode`.
    pub fn run(self, terminal: &Terminal, command: fn() -> Command) -> anyhow::Result<ExitCode> {
        self.settle().before(terminal);
        match self {
            Self::Lab(Deferred(args)) => args.run(terminal),
            Self::Bench(Deferred(args)) => args.run(terminal),
            Self::Study(Deferred(args)) => args.run(terminal),
            Self::Completions(Deferred(args)) => args.run(terminal, command(), "numapilot-lab"),
            Self::Man(Deferred(args)) => args.run(terminal, command()),
        }
    }

    /// What has to be in order before: what a killed run has left is put back by the next verb,
    /// whichever it is, and must not be taken for the machine's own.
    fn settle(&self) -> Settle {
        match self {
            Self::Bench(_) => Settle::Measuring,
            Self::Study(Deferred(args)) => args.settle(),
            // A lab has settings of its own, and the others measure nothing.
            Self::Lab(_) | Self::Completions(_) | Self::Man(_) => Settle::Dead,
        }
    }
}
