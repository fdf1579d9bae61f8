//! Trials as rows of a Parquet file, one for each number that a trial gave.

use numapilot_study::experiment::{Cell, Experiment, HOST, Outcome, ScaleName, Trial, cells};
use numapilot_topology::StableHash;
use numapilot_trials::{OK, Row, STUDY, Source};

/// The rows of these experiments. `source` is this host.
pub fn rows(
    experiments: &[Experiment],
    scale: ScaleName,
    trials: &[Trial],
    source: &Source,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for experiment in experiments {
        let source = match experiment.machine.as_str() {
            HOST => source.clone(),
            machine => source.clone().emulated(machine),
        };
        let scale_name = format!("{scale:?}");
        let command = StableHash::of([experiment.id.as_str(), &scale_name]).to_string();
        let source = Source { command, ..source };
        for cell in cells(experiment, scale) {
            let of_cell = trials.iter().filter(|trial| trial.command == cell.command);
            rows.extend(of_cell.flat_map(|trial| trial_rows(experiment, &cell, trial, &source)));
        }
    }
    rows
}

fn trial_rows(experiment: &Experiment, cell: &Cell, trial: &Trial, source: &Source) -> Vec<Row> {
    let levels: Vec<String> =
        cell.at.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    let row = |metric: &str, value: Option<f64>, outcome: &str| Row {
        run: StableHash::of([&source.host, &source.command]).to_string(),
        source: Source { metric: format!("{} {metric}", experiment.id), ..source.clone() },
        plan: levels.join(", "),
        phase: STUDY.to_owned(),
        round: trial.round.into(),
        value,
        seconds: trial.seconds,
        outcome: outcome.to_owned(),
        ..Row::default()
    };
    let metrics = experiment.metrics.values().map(|metric| metric.key());
    match &trial.outcome {
        Outcome::Values(values) => metrics
            .filter_map(|key| match values.get(&key)? {
                Ok(value) => value.as_f64().map(|value| row(&key, Some(value), OK)),
                Err(reason) => Some(row(&key, None, reason)),
            })
            .collect(),
        Outcome::Failed(reason) | Outcome::NotHere(reason) => {
            metrics.map(|key| row(&key, None, reason)).collect()
        }
    }
}
