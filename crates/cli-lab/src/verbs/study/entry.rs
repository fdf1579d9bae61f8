//! An experiment as an entry of JSON and tables.

use numapilot_study::experiment::Experiment;
use serde::Serialize;

/// An experiment with further details.
#[derive(Serialize)]
pub struct Entry<'a, T> {
    pub id: &'a str,
    pub title: &'a str,
    pub paper: &'a str,
    pub place: &'a str,
    pub says: &'a str,
    pub machine: &'a str,
    #[serde(flatten)]
    pub details: T,
}

impl<'a, T> Entry<'a, T> {
    pub fn new(experiment: &'a Experiment, details: T) -> Self {
        let Experiment { id, title, paper, place, says, machine, .. } = experiment;
        Self { id, title, paper, place, says, machine, details }
    }
}
