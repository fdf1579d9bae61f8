//! Runs `fleet`.

use std::process::ExitCode;
use std::slice;

use numapilot_cli_kit::terminal::Terminal;
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
        let rows = load_guarded(terminal, &self.paths)?;
        let report = report(&rows, self.common.confidence);
        if self.common.json {
            return terminal.json(&report);
        }
        text::report(terminal, &report)
    }
}

impl CompareArgs {
    fn run(&self, terminal: &Terminal) -> anyhow::Result<()> {
        let first = load_guarded(terminal, slice::from_ref(&self.first))?;
        let second = load_guarded(terminal, slice::from_ref(&self.second))?;
        let comparison = compare(&first, &second, self.common.confidence);
        if self.common.json {
            return terminal.json(&comparison);
        }
        text::comparison(terminal, &comparison)
    }
}
