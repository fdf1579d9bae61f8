//! The search loop: decide, run, record, until the search ends.

use std::time::Duration;

use thiserror::Error;

use crate::decide::{Decision, Settings, Stop, decide, failures, too_few_runs};
use crate::evidence::{Failure, Order, Trial};
use crate::journal::{Journal, JournalError};
use crate::run::{RunError, Runner, end_of_output};
use crate::shape::DEFAULT;
use crate::space::Space;

/// Why a search ended without a result. The trials made are kept.
#[derive(Debug, Error)]
pub enum SearchError {
    /// A run showed that further runs are useless.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The program fails without a plan, so nothing can be compared with it.
    #[error(
        "runs fail without any plan: {failed} of {runs}, the last one: {failure}; make them succeed \
         first, or see --failure-tolerance, --timeout, --limit, --metric and \
         --check. {tail}"
    )]
    Default {
        /// Runs of the default that failed.
        failed: usize,
        /// Runs of the default.
        runs: usize,
        /// How the last one failed.
        failure: Failure,
        /// The end of its output.
        tail: String,
    },
    /// Results cannot be recorded.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Receives the progress of a search.
pub trait Watcher {
    /// Called before a run.
    fn before(&mut self, order: Order, evidence: &[Trial]);
    /// Called after a run, which is the last one of the evidence.
    fn after(&mut self, evidence: &[Trial]);
}

/// Runs a search to its end. The runs made are added to `evidence`, even if the search fails.
///
/// # Errors
/// [`SearchError`]. An interruption is not an error.
pub fn search(
    space: &Space,
    settings: &Settings,
    runner: &mut Runner<'_>,
    journal: &mut Journal,
    evidence: &mut Vec<Trial>,
    watcher: &mut impl Watcher,
) -> Result<Stop, SearchError> {
    let shape = space.shape();
    loop {
        let orders = match decide(&shape, settings, evidence) {
            Decision::Run(orders) => orders,
            Decision::Stop(stop) => return Ok(stop),
        };
        runner.expect(orders.iter().map(|order| (*order, space.plan(order.candidate))), evidence);
        for order in orders {
            if is_out_of_time(settings, evidence) {
                let is_too_little = too_few_runs(settings, evidence).is_some();
                return Ok(if is_too_little { Stop::TooLittleTime } else { Stop::MaxTime });
            }
            // The plan may have failed earlier in the same block.
            if failures::failed_plans(settings, evidence).contains(&order.candidate) {
                continue;
            }
            watcher.before(order, evidence);
            let answered = runner.answer().is_some();
            let written = runner.written().clone();
            runner.learn(evidence, time_left(settings, evidence));
            let trial = match runner.run(order, &space.plan(order.candidate)) {
                Ok(trial) => trial,
                Err(RunError::Interrupted) => return Ok(Stop::Interrupted),
                Err(error) => return Err(error.into()),
            };
            if let (false, DEFAULT, Some(answer)) = (answered, order.candidate, runner.answer()) {
                journal.append_answer(answer)?;
            }
            if *runner.written() != written {
                journal.append_written(runner.written())?;
            }
            journal.append(&trial)?;
            evidence.push(trial);
            watcher.after(evidence);
            if order.candidate == DEFAULT {
                check_default(settings, evidence)?;
            }
        }
    }
}

/// Checks that the program works well enough without any plan to be a reference for others.
fn check_default(settings: &Settings, evidence: &[Trial]) -> Result<(), SearchError> {
    let last = evidence.last().and_then(|trial| Some((trial, trial.failure()?)));
    match (last, failures::failing_default(settings, evidence)) {
        (Some((trial, failure)), Some(tally)) => Err(SearchError::Default {
            failed: tally.failed,
            runs: tally.runs,
            failure: failure.clone(),
            tail: end_of_output(&trial.remains.output),
        }),
        _ => Ok(()),
    }
}

fn is_out_of_time(settings: &Settings, evidence: &[Trial]) -> bool {
    time_left(settings, evidence).is_some_and(|left| left.is_zero())
}

/// What is left of `--max-time`.
fn time_left(settings: &Settings, evidence: &[Trial]) -> Option<Duration> {
    let limit = Duration::try_from_secs_f64(settings.max_seconds?).ok()?;
    Some(limit.saturating_sub(time_spent(evidence)))
}

/// Seconds that the runs in the evidence took.
#[must_use]
pub fn time_spent(evidence: &[Trial]) -> Duration {
    Duration::try_from_secs_f64(evidence.iter().map(|t| t.seconds).sum()).unwrap_or_default()
}
