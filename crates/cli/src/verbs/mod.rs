//! One file per verb: its arguments and what it prints.

use std::process::ExitCode;

use clap::Subcommand;

use crate::terminal::Terminal;

mod completions;

/// What the user wants done.
#[derive(Subcommand)]
pub enum Verb {
    /// Print the completion script of a shell.
    Completions(completions::Args),
}

impl Verb {
    /// Does it.
    ///
    /// # Errors
    /// numapilot's own failures, each with cause and remedy; the status of a program that
    /// was run is the `ExitCode`.
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self {
            Self::Completions(args) => args.run(terminal),
        }
    }
}
