//! `numapilot study list`: the built-in experiments, and how long they take.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;

use numapilot_cli_kit::terminal::{Terminal, left_time, plural, table};
use numapilot_study::experiment::{Ahead, Past, Schedule};
use serde::Serialize;

use super::args::{Scale, Which};
use super::entry::Entry;
use crate::jobs::Jobs;

/// Arguments of `study list`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// The scale whose trials and times are listed.
    #[arg(long, value_enum, default_value_t = Scale::Smoke)]
    scale: Scale,
    /// Results of earlier runs, from which the remaining trials and their time are computed.
    #[arg(short, long, value_name = "FILE", default_value = super::RESULTS)]
    output: PathBuf,
    #[command(flatten)]
    jobs: Jobs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The trials of an experiment.
#[derive(Serialize)]
struct Size {
    trials: usize,
    left: Ahead,
}

impl Size {
    fn of(schedule: &Schedule<'_>, jobs: NonZeroUsize) -> Self {
        Self { trials: schedule.trials(), left: schedule.ahead(jobs) }
    }

    /// The estimated time of the remaining trials, as text.
    fn time(&self) -> String {
        match self.left {
            Ahead { trials: 0, .. } => "-".to_owned(),
            Ahead { unknown: 0, seconds, .. } => left_time(seconds),
            _ => "unknown".to_owned(),
        }
    }
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let experiments = self.which.experiments()?;
        // Without results, nothing is known.
        let past = match self.output.as_path() == Path::new(super::RESULTS) && !self.output.exists()
        {
            true => Past::default(),
            false => Past::read(&self.output)?,
        };
        let jobs = self.jobs.number();
        let size = |experiments| {
            Size::of(&Schedule::new(experiments, self.scale.into(), None, &past.trials), jobs)
        };
        let entries = experiments.iter().map(|one| Entry::new(one, size(slice::from_ref(one))));
        if self.json {
            terminal.json(&entries.collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        // Without results, all trials remain and their time is unknown.
        let has_results = !past.trials.is_empty();
        let mut header = vec!["id", "paper", "place", "machine", "trials"];
        header.extend(["left", "time"].iter().filter(|_| has_results));
        header.push("title");
        let mut rows = table(&header, if has_results { &[4, 5] } else { &[4] });
        for entry in entries {
            let Entry { id, paper, place, machine, title, details, .. } = entry;
            let mut cells = [id, paper, place, machine].map(str::to_owned).to_vec();
            cells.push(details.trials.to_string());
            cells.extend(
                [details.left.trials.to_string(), details.time()]
                    .into_iter()
                    .filter(|_| has_results),
            );
            cells.push(title.to_owned());
            rows.add_row(cells);
        }
        writeln!(terminal.out(), "{}", rows.trim_fmt())?;
        self.total(terminal, &size(&experiments))
    }

    /// The total over all experiments; trials that they share count once.
    fn total(&self, terminal: &Terminal, all: &Size) -> anyhow::Result<ExitCode> {
        let Size { trials, left } = all;
        let known = left.trials - left.unknown;
        let mut text = format!("in all {}, {} left", plural(*trials, "trial"), left.trials);
        match (known, left.unknown) {
            (0, _) => {}
            (_, 0) => text += &format!(": about {}", left_time(left.seconds)),
            _ => text += &format!("\n{known} of them: about {}", left_time(left.seconds)),
        }
        if left.unknown > 0 {
            text += &format!(
                "\n{} of them: not known how long, for {} has no trial of their experiments at this \
                 scale; `study run --repetitions 1` makes one of each",
                left.unknown,
                self.output.display()
            );
        }
        writeln!(terminal.out(), "{text}")?;
        Ok(ExitCode::SUCCESS)
    }
}
