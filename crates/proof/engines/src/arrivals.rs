//! Queries that arrive at random: the times between them are exponential. A limited number of
//! queries is active at the same time; the others wait.
//!
//! Source: allocation-for-query-processing, sections 4 and 5. The loop is open: an arrival does not
//! wait for the answer to an earlier one. Latency counts from the intended arrival, however late a
//! client was free to send the query. Overload therefore shows as waiting time instead of being
//! left out.
//!
//! ```text
//!   intended      started                ended
//!      |--- wait ---|----- execution ------|
//!      |------------- latency -------------|
//! ```

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand_distr::{Distribution, Exp};

use crate::client_pool::{self, End};
use crate::power::Failure;
use crate::{Answer, Engine, Latencies, Query, Session, Verifier};

/// A future query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// Time after the beginning.
    pub at: Duration,
    /// Index of the query.
    pub query: usize,
}

/// The schedule of arrivals. For the same seed it is the same for every engine.
///
/// `rate` is in queries per second, above 0.
#[must_use]
pub fn schedule(rate: f64, count: usize, queries: usize, seed: u64) -> Vec<Arrival> {
    let choices: Vec<usize> = (0..queries).collect();
    let mut random = StdRng::seed_from_u64(seed);
    let Ok(gaps) = Exp::new(rate) else { return Vec::new() };
    let mut at = 0.0;
    let mut next = |_| {
        at += gaps.sample(&mut random);
        let query = *choices.choose(&mut random)?;
        Some(Arrival { at: Duration::try_from_secs_f64(at).ok()?, query })
    };
    (0..count).map_while(&mut next).collect()
}

/// An arrival that was served.
#[derive(Clone, Debug)]
pub struct Served {
    /// The query's number.
    pub number: u32,
    /// The intended arrival, after the beginning.
    pub intended: Duration,
    /// Time until a client was free.
    pub wait: Duration,
    /// Time from sending to the last row.
    pub execution: Duration,
    /// Execution time by the engine's own timer.
    pub engine: Option<Duration>,
    /// Why it does not count.
    pub failure: Option<Failure>,
}

impl Served {
    /// Time from the intended arrival to the last row.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.wait + self.execution
    }
}

/// The results of all arrivals.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Times from the intended arrival to a free client.
    pub wait: Latencies,
    /// Times from sending to the last row.
    pub execution: Latencies,
    /// The sums of both.
    pub latency: Latencies,
    /// Latencies by query, in the order of the queries.
    pub by_query: Vec<(u32, Latencies)>,
    /// Number and cause of the queries that failed.
    pub failures: Vec<(u32, Failure)>,
    /// Time from the beginning to the last answer.
    pub elapsed: Duration,
}

impl Outcome {
    fn take(&mut self, served: &Served) {
        self.elapsed = self.elapsed.max(served.intended + served.latency());
        if let Some(failure) = &served.failure {
            self.failures.push((served.number, failure.clone()));
            return;
        }
        self.wait.record(served.wait);
        self.execution.record(served.execution);
        self.latency.record(served.latency());
        if let Some((_, latencies)) = self.by_query.iter_mut().find(|(n, _)| *n == served.number) {
            latencies.record(served.latency());
        }
    }
}

/// Message of a client.
struct ClientEvent {
    served: Served,
    answer: Option<Answer>,
}

/// Serves a schedule with one client per session. Calls `watch` for each arrival that was served.
pub fn run(
    engine: &dyn Engine,
    sessions: &mut [Box<dyn Session>],
    queries: &[Query],
    schedule: &[Arrival],
    verifier: &mut Verifier,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Served),
) -> (Outcome, End) {
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    let worker = |session: &mut dyn Session, client: &client_pool::Client<'_, ClientEvent>| {
        // A free client takes the next arrival, so queries are served in the order of arrival.
        while let Some(arrival) = schedule.get(next.fetch_add(1, Ordering::Relaxed)) {
            let intended = began + arrival.at;
            if !client.sleep_until(intended) {
                return;
            }
            let wait = intended.elapsed();
            let query = &queries[arrival.query];
            let Some(result) = client.run(session, &query.sql) else { return };
            let execution = intended.elapsed().saturating_sub(wait);
            let (engine, answer, failure) = match result {
                Ok(execution) => (execution.engine, Some(execution.answer), None),
                Err(cause) => (None, None, Some(Failure::Refused(cause))),
            };
            let (number, intended) = (query.number, arrival.at);
            let served = Served { number, intended, wait, execution, engine, failure };
            client.send(ClientEvent { served, answer });
        }
    };
    let by_query = queries.iter().map(|query| (query.number, Latencies::default())).collect();
    let mut outcome = Outcome { by_query, ..Outcome::default() };
    let mut listen = |event: ClientEvent| {
        let mut served = event.served;
        if let Some(answer) = event.answer
            && let Err(difference) = verifier.check(served.number, answer)
        {
            served.failure = Some(Failure::Wrong(difference));
        }
        outcome.take(&served);
        watch(&served);
    };
    let end = client_pool::run_clients(engine, sessions, stop, worker, &mut listen);
    (outcome, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_exponential_and_repeatable() {
        let all = schedule(4.0, 20_000, 22, 7);
        assert_eq!(all, schedule(4.0, 20_000, 22, 7));
        assert_ne!(all, schedule(4.0, 20_000, 22, 8));
        let gaps: Vec<f64> =
            all.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Mean 1/rate and variance 1/rate^2; five standard errors of 20,000 samples.
        assert!((mean - 0.25).abs() < 0.25 * 5.0 / 20_000_f64.sqrt(), "{mean}");
        assert!((variance - 0.0625).abs() < 0.0625 * 0.1, "{variance}");
        let mut counts = [0; 22];
        all.iter().for_each(|arrival| counts[arrival.query] += 1);
        assert!(counts.iter().all(|count| (700..1120).contains(count)), "{counts:?}");
        assert!(schedule(4.0, 3, 0, 1).is_empty());
    }

    #[test]
    fn latency_counts_from_the_intended_arrival() {
        let served = Served {
            number: 6,
            intended: Duration::from_secs(1),
            wait: Duration::from_secs(2),
            execution: Duration::from_secs(3),
            engine: None,
            failure: None,
        };
        let by_query = vec![(6, Latencies::default())];
        let mut outcome = Outcome { by_query, ..Outcome::default() };
        outcome.take(&served);
        assert_eq!(outcome.elapsed, Duration::from_secs(6));
        assert!((outcome.latency.quantile(1.0).unwrap() - 5.0).abs() < 0.01);
        let failure = Some(Failure::Refused("no".to_owned()));
        outcome.take(&Served { failure, ..served });
        assert_eq!((outcome.latency.count(), outcome.failures.len()), (1, 1));
    }
}
