//! `numapilot restore`: puts back machine-wide settings that a killed run left changed, and the
//! CPUs of programs whose `numapilot cores` was killed.

use std::io::Write;
use std::process::ExitCode;

use numapilot_cli_kit::settle;
use numapilot_cli_kit::terminal::{Terminal, printable};
use numapilot_cores::Records;
use numapilot_place::guard;
use numapilot_place::settings_journal::{Done, SettingsJournal, SettingsJournalError};

/// Arguments of `restore`.
#[derive(clap::Args)]
pub struct Args {
    /// Also put back changes of runs that are still alive.
    #[arg(long)]
    force: bool,

    /// As the guard of a process: wait for its end, then put back what it left.
    #[arg(long, hide = true, value_name = "PID:START", value_parser = process,
          conflicts_with = "force")]
    after: Option<(u32, u64)>,
}

fn process(text: &str) -> Result<(u32, u64), String> {
    let parsed = text
        .split_once(':')
        .and_then(|(pid, start_time)| Some((pid.parse().ok()?, start_time.parse().ok()?)));
    parsed.ok_or_else(|| format!("'{text}' is not PID:START"))
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if let Some((pid, start_time)) = self.after {
            if guard::wait_for_end(pid, start_time)? {
                settle::put_back();
            }
            return Ok(ExitCode::SUCCESS);
        }
        let ended = guard::end_stale_groups();
        let (mut outcomes, mut cores) = (Vec::new(), Vec::new());
        match SettingsJournal::system() {
            Ok(journal) => {
                outcomes = journal.restore(self.force)?;
                cores = Records::system()?.restore(self.force)?;
            }
            // Without a journal, nothing has been changed.
            Err(SettingsJournalError::NoDirectory { cause }) => terminal.say(format_args!(
                "no run of this user has changed anything, for want of a journal: {cause}"
            )),
            Err(error) => return Err(error.into()),
        }
        numapilot_place::remove_stale_files();
        let mut out = terminal.out();
        if ended.is_empty() && outcomes.is_empty() && cores.is_empty() {
            writeln!(out, "nothing to restore")?;
        }
        for line in &ended {
            writeln!(out, "{line}")?;
        }
        for outcome in &outcomes {
            writeln!(out, "{}", printable(&outcome.to_string()))?;
        }
        for outcome in &cores {
            writeln!(out, "{}", printable(&outcome.text))?;
        }
        let failed = cores.iter().any(|o| o.failed);
        if failed || outcomes.iter().any(|o| matches!(o.done, Done::Failed(_))) {
            anyhow::bail!("not everything could be put back; the journal keeps what was not");
        }
        Ok(ExitCode::SUCCESS)
    }
}
