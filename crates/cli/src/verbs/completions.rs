//! `numapilot completions SHELL`: from the argument table, so never out of date.

use std::io::Write;
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
        // Written at once: clap_complete itself ends the process when a reader went away.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Cli::command(), "numapilot", &mut script);
        terminal.out().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
