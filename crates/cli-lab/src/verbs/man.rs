//! `numapilot-lab man [DIR]`: from the argument table, so never out of date.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;
use numapilot_cli_kit::man;
use numapilot_cli_kit::terminal::Terminal;

/// Arguments of `man`.
#[derive(clap::Args)]
pub struct Args {
    /// Write one page for each verb that `numapilot` executes numapilot-lab for (numapilot-bench.1,
    /// ...) into this directory.
    dir: Option<PathBuf>,
}

impl Args {
    pub fn run(self, terminal: &Terminal, command: Command) -> anyhow::Result<ExitCode> {
        match self.dir {
            None => Man::new(command).render(&mut terminal.out())?,
            Some(dir) => {
                // numapilot writes its own pages of these.
                let is_here = |verb: &str| !["completions", "man"].contains(&verb);
                man::write_verbs(command.name("numapilot"), &dir, is_here, |_, _| Ok(()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
