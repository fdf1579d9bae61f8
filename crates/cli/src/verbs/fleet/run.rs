//! Runs `fleet`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::slice;

use anyhow::ensure;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_trials::Row;
use numapilot_trials::fleet::{compare, report};

use super::args::{Args, CompareArgs, ReportArgs, Verb};
use super::damage::load_guarded;
use super::text;

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.verb {
            Verb::Report(args) => args.run(terminal)?,
            Verb::Compare(args) => args.run(terminal)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl ReportArgs {
    fn run(&self, terminal: &Terminal) -> anyhow::Result<()> {
        let rows = load_some(terminal, &self.paths)?;
        let report = report(&rows, self.common.confidence);
        if self.common.json {
            return terminal.json(&report);
        }
        text::report(terminal, &report)
    }
}

impl CompareArgs {
    fn run(&self, terminal: &Terminal) -> anyhow::Result<()> {
        let first = load_some(terminal, slice::from_ref(&self.first))?;
        let second = load_some(terminal, slice::from_ref(&self.second))?;
        let comparison = compare(&first, &second, self.common.confidence);
        if self.common.json {
            return terminal.json(&comparison);
        }
        text::comparison(terminal, &comparison)
    }
}

fn load_some(terminal: &Terminal, paths: &[PathBuf]) -> anyhow::Result<Vec<Row>> {
    let rows = load_guarded(terminal, paths)?;
    let names = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    ensure!(
        !rows.is_empty(),
        "{names} has no run; write it again by numapilot tune --parquet FILE"
    );
    Ok(rows)
}
