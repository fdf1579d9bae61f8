//! W5: runs one query after the other, in rounds. The first round is cold and does not count.
//!
//! Source: systematic-numa-study 4.1.5 and Figure 9 (latency of each TPC-H query, without the cold
//! run).

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::client_pool::{self, End};
pub use crate::verify::Failure;
use crate::{Engine, Query, Session, Verifier};

/// One run of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Time by the engine's own timer.
    pub engine: Option<Duration>,
    /// Time from before sending to after the last row.
    pub wall: Duration,
}

/// The results of a query.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The number of the query.
    pub number: u32,
    /// Number of rows of its answer.
    pub rows: usize,
    /// The cold run.
    pub cold: Option<Run>,
    /// The runs that count.
    pub runs: Vec<Run>,
    /// The sources of answers with which its answer agrees.
    pub agrees_with: Vec<String>,
    /// Why it is no longer run: the engine refused it, or its answer was wrong.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// The median of the runs that count, in seconds.
    #[must_use]
    pub fn median_seconds(&self, of: impl Fn(&Run) -> Option<Duration>) -> Option<f64> {
        let mut all: Vec<f64> =
            self.runs.iter().filter_map(|run| Some(of(run)?.as_secs_f64())).collect();
        all.sort_by(f64::total_cmp);
        let middle = all.len() / 2;
        match all.len() {
            0 => None,
            n if n % 2 == 1 => Some(all[middle]),
            _ => Some(f64::midpoint(all[middle - 1], all[middle])),
        }
    }
}

/// An event during the run.
#[derive(Debug)]
pub enum Event<'a> {
    /// A query is sent, in this round (0 is the cold one).
    Begins(u32, u32),
    /// A query was answered or failed. If it failed, the last run is of an earlier round.
    Ended(&'a Outcome, u32),
}

/// Message of the client.
enum ClientEvent {
    Begins(usize, u32),
    Ended(usize, u32, Result<crate::Execution, String>),
}

/// Runs every query `rounds` times after a cold round. The outcomes hold everything that was
/// measured, even if the run ends early.
pub fn run(
    engine: &dyn Engine,
    session: &mut Box<dyn Session>,
    queries: &[Query],
    rounds: u32,
    verifier: &mut Verifier,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Event<'_>),
) -> (Vec<Outcome>, End) {
    let outcome = |query: &Query| Outcome { number: query.number, ..Outcome::default() };
    let mut outcomes: Vec<Outcome> = queries.iter().map(outcome).collect();
    let worker = |session: &mut dyn Session, client: &client_pool::Client<'_, ClientEvent>| {
        let mut failed = vec![false; queries.len()];
        for round in 0..=rounds {
            for (at, query) in queries.iter().enumerate() {
                if failed[at] || client.is_over() {
                    continue;
                }
                client.send(ClientEvent::Begins(at, round));
                let Some(result) = client.run(session, &query.sql) else { return };
                failed[at] = result.is_err();
                client.send(ClientEvent::Ended(at, round, result));
            }
        }
    };
    let mut listen = |event| match event {
        ClientEvent::Begins(at, round) => watch(Event::Begins(outcomes[at].number, round)),
        ClientEvent::Ended(at, round, result) => {
            let outcome = &mut outcomes[at];
            match result {
                Err(cause) => outcome.failure = Some(Failure::Refused(cause)),
                Ok(execution) => take(outcome, execution, round, verifier),
            }
            watch(Event::Ended(outcome, round));
        }
    };
    let sessions = std::slice::from_mut(session);
    let end = client_pool::run_clients(engine, sessions, stop, worker, &mut listen);
    (outcomes, end)
}

fn take(outcome: &mut Outcome, execution: crate::Execution, round: u32, verifier: &mut Verifier) {
    let run = Run { engine: execution.engine, wall: execution.wall };
    outcome.rows = execution.answer.rows.len();
    match verifier.check(outcome.number, execution.answer) {
        Ok(verdict) => outcome.agrees_with.extend(verdict.agrees_with),
        // The time of a wrong answer is useless; the first difference is reported.
        Err(difference) => {
            outcome.failure.get_or_insert(Failure::Wrong(difference));
            return;
        }
    }
    if round == 0 {
        outcome.cold = Some(run);
    } else {
        outcome.runs.push(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_runs_that_count() {
        let run = |ms| Run { engine: None, wall: Duration::from_millis(ms) };
        let mut outcome = Outcome { cold: Some(run(900)), ..Outcome::default() };
        assert_eq!(outcome.median_seconds(|run| Some(run.wall)), None);
        outcome.runs = vec![run(30), run(10), run(20)];
        assert_eq!(outcome.median_seconds(|run| Some(run.wall)), Some(0.02));
        outcome.runs.push(run(40));
        assert_eq!(outcome.median_seconds(|run| Some(run.wall)), Some(0.025));
        assert_eq!(outcome.median_seconds(|run| run.engine), None);
    }
}
