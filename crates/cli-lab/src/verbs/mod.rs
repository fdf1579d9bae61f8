//! The verbs: one folder each, with arguments and output.

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

/// The verbs.
#[derive(Subcommand)]
pub enum Verb {
    /// Emulate NUMA machines and run programs on them.
    Lab(Deferred<lab::Args>),
    /// Run a built-in workload.
    Bench(Deferred<bench::Args>),
    /// Run the papers' experiments, compare the results, and show them as a page.
    Study(Deferred<study::Args>),
    /// Print the completion script of a shell for numapilot-lab.
    Completions(Deferred<completions::Args>),
    /// Write the manual pages of lab, bench and study into a directory.
    Man(Deferred<man::Args>),
}

impl Verb {
    /// Runs the verb; `command` returns the argument table of the whole program.
    ///
    /// # Errors
    /// numapilot's own failures, each with cause and remedy. The status of a program that was run
    /// is the `ExitCode`.
    pub fn run(self, terminal: &Terminal, command: fn() -> Command) -> anyhow::Result<ExitCode> {
        self.settle().before(terminal);
        match self {
            Self::Lab(Deferred(args)) => args.run(terminal),
            Self::Bench(Deferred(args)) => args.run(terminal),
            Self::Study(Deferred(args)) => args.run(terminal),
            Self::Completions(Deferred(args)) => {
                args.run(terminal, command(), "numapilot-lab", |_| "")
            }
            Self::Man(Deferred(args)) => args.run(terminal, command()),
        }
    }

    /// Whether to restore settings that a killed run left behind before this verb starts. A verb
    /// that measures must not take them for the machine's own.
    fn settle(&self) -> Settle {
        match self {
            Self::Bench(_) => Settle::Measuring,
            Self::Study(Deferred(args)) => args.settle(),
            // A lab has settings of its own; the other verbs measure nothing.
            Self::Lab(_) | Self::Completions(_) | Self::Man(_) => Settle::Dead,
        }
    }
}
