//! A trial: the command and its outcome.
//!
//! A trial that numapilot refuses here (status 125, with the reason) or whose program is not
//! installed (126, 127) is not a failure of the experiment, but one that is not run here.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;

use numapilot_tune::run::Execution;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::Metric;
use super::output_parser;

/// Exit statuses of trials that are not run here.
const NOT_HERE: std::ops::RangeInclusive<i32> = 125..=127;

/// A trial that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The shell command.
    pub command: String,
    /// The round, counted from 0.
    pub round: u32,
    /// Total duration.
    pub seconds: f64,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The metrics by [`key`](Metric::key): the value, or why there is none.
    Values(BTreeMap<String, Result<Value, String>>),
    /// The command failed.
    Failed(String),
    /// It cannot be run here, and why.
    NotHere(String),
}

impl Metric {
    /// The key under which values are stored. Experiments that share trials may name the metric
    /// differently.
    #[must_use]
    pub fn key(&self) -> String {
        match &self.points {
            Some([x, y]) => format!("{}[{x},{y}]", self.field),
            None => self.field.clone(),
        }
    }
}

impl Trial {
    /// The outcome of a command from which these metrics are read.
    pub(super) fn of(
        command: &str,
        metrics: &[&Metric],
        round: u32,
        execution: &Execution,
    ) -> Self {
        Self {
            command: command.to_owned(),
            round,
            seconds: execution.finished.wall.as_secs_f64(),
            outcome: outcome(metrics, execution),
        }
    }
}

fn outcome(metrics: &[&Metric], execution: &Execution) -> Outcome {
    if let Some(failure) = execution.failure() {
        let last = message(&execution.text);
        let code = execution.finished.status.code().filter(|_| !execution.finished.timed_out);
        if execution.finished.status.signal().is_none()
            && code.is_some_and(|c| NOT_HERE.contains(&c))
        {
            return Outcome::NotHere(last);
        }
        return Outcome::Failed(format!("{failure}: {last}"));
    }
    let mut printed = vec![usage(execution)];
    printed.extend(output_parser::split_json(&execution.text).0);
    let value = |metric: &&Metric| (metric.key(), output_parser::read_metric(metric, &printed));
    Outcome::Values(metrics.iter().map(value).collect())
}

/// The kernel's counters of the command and its children, for programs that print nothing.
fn usage(execution: &Execution) -> Value {
    let finished = &execution.finished;
    let usage = &finished.usage;
    serde_json::json!({ "usage": {
        "wall_seconds": finished.wall.as_secs_f64(),
        "cpu_seconds": (usage.user + usage.system).as_secs_f64(),
        "system_seconds": usage.system.as_secs_f64(),
        "peak_rss_bytes": execution.peak_rss_bytes,
        "page_faults": usage.minor_faults + usage.major_faults,
    }})
}

/// The line that explains a failure: numapilot's own error, which starts with its name and may
/// continue on the next lines, or else the last line that is not JSON.
fn message(text: &str) -> String {
    const OWN: &str = "numapilot: error: ";
    let (_, lines) = output_parser::split_json(text);
    let last = lines.last().map_or("it printed nothing", |line| line).to_owned();
    let own = |(at, line): (usize, &&str)| {
        let (_, first) = line.split_once(OWN)?;
        Some([&[first], &lines[at + 1..]].concat().join(" "))
    };
    let own = lines.iter().enumerate().rev().find_map(own);
    own.unwrap_or(last).chars().take(400).collect()
}
