//! `numapilot completions SHELL`: from the argument table, so never out of date.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::terminal::Terminal;

/// Arguments of `completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        clap_complete::generate(
            self.shell,
            &mut crate::Cli::command(),
            "numapilot",
            &mut terminal.out(),
        );
        Ok(ExitCode::SUCCESS)
    }
}
