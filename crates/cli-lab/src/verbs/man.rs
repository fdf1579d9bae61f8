//! `numapilot-lab man [DIR]`: manual pages, generated from the argument table.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;
use numapilot_cli_kit::man;
use numapilot_cli_kit::terminal::Terminal;

/// Arguments of `man`.
#[derive(clap::Args)]
pub struct Args {
    /// Existing directory for the pages: one for each verb that `numapilot` passes to numapilot-lab
    /// (numapilot-bench.1, ...).
    dir: Option<PathBuf>,
}

impl Args {
    pub fn run(self, terminal: &Terminal, command: Command) -> anyhow::Result<ExitCode> {
        match self.dir {
            None => Man::new(command).render(&mut terminal.out())?,
            Some(dir) => {
                // numapilot writes its own pages for these.
                let is_here = |verb: &str| !["completions", "man"].contains(&verb);
                man::write_verbs(command.name("numapilot"), &dir, is_here, |_| Ok(Vec::new()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
