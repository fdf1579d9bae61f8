//! `numapilot study list`: the experiments that the binary carries.

use std::io::Write;
use std::process::ExitCode;

use numapilot_study::experiment::{Experiment, ScaleName, cells, named, names};
use serde::Serialize;

use crate::terminal::{Terminal, table};

/// Arguments of `study list`.
#[derive(clap::Args)]
pub struct Args {
    /// Only those of this paper.
    #[arg(long, value_name = "NAME")]
    paper: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `study list --json`.
#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    title: &'a str,
    paper: &'a str,
    place: &'a str,
    says: &'a str,
    machine: &'a str,
    smoke_trials: usize,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let experiments = of_paper(self.paper.as_deref())?;
        let entries = experiments.iter().map(|experiment| Entry {
            id: &experiment.id,
            title: &experiment.title,
            paper: &experiment.paper,
            place: &experiment.place,
            says: &experiment.says,
            machine: &experiment.machine,
            smoke_trials: trials(experiment),
        });
        if self.json {
            terminal.json(&entries.collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows = table(&["id", "paper", "place", "machine", "trials", "title"], &[4]);
        for entry in entries {
            let trials = entry.smoke_trials.to_string();
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

/// The experiments of a paper, or all.
pub fn of_paper(paper: Option<&str>) -> anyhow::Result<Vec<Experiment>> {
    let mut all = Vec::new();
    for name in names() {
        all.extend(named(name)?);
    }
    let Some(paper) = paper else { return Ok(all) };
    let mut papers: Vec<String> = all.iter().map(|e| e.paper.clone()).collect();
    papers.dedup();
    all.retain(|experiment| experiment.paper == paper);
    if all.is_empty() {
        anyhow::bail!("there is no paper '{paper}'; there are {}", papers.join(", "));
    }
    Ok(all)
}
