//! `numapilot man [DIR]`: from the argument table, so never out of date.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;

use crate::terminal::Terminal;

/// Arguments of `man`.
#[derive(clap::Args)]
pub struct Args {
    /// Write numapilot.1 and one page per verb (numapilot-run.1, ...) into this directory.
    dir: Option<PathBuf>,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let command = crate::Cli::command();
        match self.dir {
            None => Man::new(command).render(&mut terminal.out())?,
            Some(dir) => {
                std::fs::create_dir_all(&dir)
                    .and_then(|()| clap_mangen::generate_to(command, &dir))
                    .with_context(|| format!("cannot write manual pages into {}", dir.display()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
