//! The verb `completions`: generates scripts from the argument table, so they are never out of
//! date.

use std::io::Write;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::terminal::Terminal;

/// Arguments of `completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

impl Args {
    /// Prints the script of this command line for a program's file name.
    ///
    /// # Errors
    /// Fails if standard output cannot be written.
    pub fn run(
        self,
        terminal: &Terminal,
        mut command: Command,
        name: &str,
    ) -> anyhow::Result<ExitCode> {
        // Buffered: clap_complete itself would end the process if the reader went away.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        terminal.out().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
