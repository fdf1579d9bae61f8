//! `numapilot restore`: puts back machine-wide settings that a killed run left changed, and the
//! CPUs of programs whose `numapilot cores` was killed.

use std::io::Write;
use std::process::ExitCode;

use numapilot_cores::Records;
use numapilot_place::journal::{Done, Journal};

use crate::terminal::Terminal;

/// Arguments of `restore`.
#[derive(clap::Args)]
pub struct Args {
    /// Also put back what runs that are still alive have changed.
    #[arg(long)]
    force: bool,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let outcomes = Journal::system()?.restore(self.force)?;
        let cores = Records::system()?.restore(self.force)?;
        let mut out = terminal.out();
        if outcomes.is_empty() && cores.is_empty() {
            writeln!(out, "nothing to restore")?;
        }
        for outcome in &outcomes {
            writeln!(out, "{outcome}")?;
        }
        for outcome in &cores {
            writeln!(out, "{}", outcome.text)?;
        }
        let failed = cores.iter().any(|o| o.failed);
        if failed || outcomes.iter().any(|o| matches!(o.done, Done::Failed(_))) {
            anyhow::bail!("not everything could be put back; the journal keeps what was not");
        }
        Ok(ExitCode::SUCCESS)
    }
}
