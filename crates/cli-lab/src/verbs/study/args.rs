//! Options of `study list` and `study run` that select experiments.

use std::collections::BTreeSet;

use anyhow::bail;
use numapilot_study::experiment::{Experiment, HOST, ScaleName, named, names};

/// The selection of built-in experiments.
#[derive(clap::Args)]
pub struct Which {
    /// Only experiments of this paper.
    #[arg(long, value_name = "NAME")]
    pub paper: Option<String>,
    /// Only experiments on this machine: host, lab for all emulated ones, or one of `lab list`.
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
}

/// `--scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// Small: a trial takes seconds.
    Smoke,
    /// Larger and more precise: all of it takes hours.
    Laptop,
    /// The papers' sizes.
    Paper,
}

impl From<Scale> for ScaleName {
    fn from(scale: Scale) -> Self {
        match scale {
            Scale::Smoke => Self::Smoke,
            Scale::Laptop => Self::Laptop,
            Scale::Paper => Self::Paper,
        }
    }
}

impl Which {
    /// The selected experiments.
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

/// The distinct names, separated by commas.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
