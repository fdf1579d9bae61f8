//! `numapilot study list`: the experiments that the binary carries.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use numapilot_study::experiment::{Experiment, HOST, ScaleName, cells, named, names};
use serde::Serialize;

use super::entry::Entry;
use crate::terminal::{Terminal, table};

/// Which of the experiments that the binary carries.
#[derive(clap::Args)]
pub struct Which {
    /// Only those of this paper.
    #[arg(long, value_name = "NAME")]
    pub paper: Option<String>,
    /// Only those on this machine: host, lab for all emulated ones, or one of `lab list`.
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
}

/// Arguments of `study list`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What the list tells of an experiment.
#[derive(Serialize)]
struct Size {
    smoke_trials: usize,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let experiments = self.which.experiments()?;
        let size = |experiment| Size { smoke_trials: trials(experiment) };
        let entries = experiments.iter().map(|experiment| Entry::new(experiment, size(experiment)));
        if self.json {
            terminal.json(&entries.collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows = table(&["id", "paper", "place", "machine", "trials", "title"], &[4]);
        for entry in entries {
            let trials = entry.told.smoke_trials.to_string();
            let cells = [entry.id, entry.paper, entry.place, entry.machine, &trials, entry.title];
            rows.add_row(cells);
        }
        writeln!(terminal.out(), "{}", rows.trim_fmt())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// At the smallest scale.
fn trials(experiment: &Experiment) -> usize {
    let repetitions = experiment.at(ScaleName::Smoke).map_or(0, |scale| scale.repetitions);
    cells(experiment, ScaleName::Smoke).len() * repetitions as usize
}

impl Which {
    /// Those chosen.
    pub fn experiments(&self) -> anyhow::Result<Vec<Experiment>> {
        let mut all = Vec::new();
        for name in names() {
            all.extend(named(name)?);
        }
        if let Some(paper) = &self.paper {
            let known = distinct(all.iter().map(|experiment| &experiment.paper));
            all.retain(|experiment| experiment.paper == *paper);
            if all.is_empty() {
                bail!("there is no paper '{paper}'; there are {known}");
            }
        }
        if let Some(machine) = &self.machine {
            let known = distinct(all.iter().map(|experiment| &experiment.machine));
            all.retain(|experiment| match machine.as_str() {
                "lab" => experiment.machine != HOST,
                name => experiment.machine == name,
            });
            if all.is_empty() {
                bail!("no experiment runs on '{machine}'; they run on {known}");
            }
        }
        Ok(all)
    }
}

/// Each once, with commas between.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
