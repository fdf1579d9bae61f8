//! A trial: what was run, and what came of it.
//!
//! What numapilot says it cannot do here (status 125, with the reason), and what is not
//! installed (126, 127), is no failure of the experiment: it is not run here.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;

use numapilot_tune::run::Execution;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::Metric;
use super::output_parser;

/// Exit statuses of what cannot be done here.
const NOT_HERE: std::ops::RangeInclusive<i32> = 125..=127;

/// A trial that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The line for the shell.
    pub command: String,
    /// From 0.
    pub round: u32,
    /// How long it took in all.
    pub seconds: f64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Metrics, by their [`key`](Metric::key): each the value, or why there is none.
    Values(BTreeMap<String, Result<Value, String>>),
    /// The command failed.
    Failed(String),
    /// It cannot be run here, and why.
    NotHere(String),
}

impl Metric {
    /// What its values are kept under: experiments that share trials may call them otherwise.
    #[must_use]
    pub fn key(&self) -> String {
        match &self.points {
            Some([x, y]) => format!("{}[{x},{y}]", self.field),
            None => self.field.clone(),
        }
    }
}

impl Trial {
    /// What a command left, of which these metrics are wanted.
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

/// What the kernel counted of the command and its children, for programs that print nothing.
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

/// What says why: the last line that is no result, or numapilot's own, which begins with its
/// name and may go on below.
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
