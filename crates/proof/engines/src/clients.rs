//! A closed loop: each client sends its next query when the previous one is answered, at once or
//! after a pause (a think time).
//!
//! Source: prt-pro, Figure 1 (TPC-H Q6 under a growing number of concurrent clients).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp};

use crate::client_pool::{self, End};
use crate::power::Failure;
use crate::{Answer, Engine, Latencies, Query, Session, Verifier};

/// How long clients continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Until this much time has passed.
    Time(Duration),
    /// Until each client has sent this many queries: the same work, however long it takes.
    Queries(u64),
}

impl Length {
    fn is_over(self, sent: u64, began: Instant) -> bool {
        match self {
            Self::Time(time) => began.elapsed() >= time,
            Self::Queries(queries) => sent >= queries,
        }
    }
}

/// The pauses of clients before their queries: exponential, so that clients do not keep step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Think {
    /// The mean; zero for no pauses.
    pub mean: Duration,
    /// The same seed gives the same pauses.
    pub seed: u64,
}

impl Think {
    /// The pauses of one client, without end.
    fn pauses(self, client: usize) -> impl Iterator<Item = Duration> {
        let mut random = StdRng::seed_from_u64(self.seed ^ (client as u64).rotate_left(32));
        let gaps = Exp::new(1.0 / self.mean.as_secs_f64()).ok();
        std::iter::repeat_with(move || {
            let seconds = gaps.map_or(0.0, |gaps| gaps.sample(&mut random));
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        })
    }
}

/// What every client does.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// How long it continues.
    pub length: Length,
    /// Its pauses.
    pub think: Think,
}

/// The result of a number of clients.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of clients.
    pub clients: usize,
    /// Times from sending to the last row.
    pub latency: Latencies,
    /// Queries that were answered.
    pub answered: u64,
    /// Number and cause of the queries that failed.
    pub failures: Vec<(u32, Failure)>,
    /// Time from the first query to the last answer.
    pub elapsed: Duration,
}

impl Outcome {
    /// Answers per second.
    #[must_use]
    pub fn queries_per_second(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        (self.answered > 0 && seconds > 0.0).then(|| self.answered as f64 / seconds)
    }
}

/// Message of a client.
struct ClientEvent {
    number: u32,
    latency: Duration,
    ended: Duration,
    result: Result<Answer, String>,
}

/// Lets all sessions run the queries in turn. Waits for queries that have been sent.
pub fn run(
    engine: &dyn Engine,
    sessions: &mut [Box<dyn Session>],
    queries: &[Query],
    behaviour: Behaviour,
    verifier: &mut Verifier,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(u64),
) -> (Outcome, End) {
    let began = Instant::now();
    let next_client = AtomicUsize::new(0);
    let worker = |session: &mut dyn Session, client: &client_pool::Client<'_, ClientEvent>| {
        let pauses = behaviour.think.pauses(next_client.fetch_add(1, Ordering::Relaxed));
        for ((query, already), pause) in queries.iter().cycle().zip(0..).zip(pauses) {
            if behaviour.length.is_over(already, began)
                || !client.sleep_until(Instant::now() + pause)
            {
                return;
            }
            let sent = Instant::now();
            let Some(result) = client.run(session, &query.sql) else { return };
            let (latency, ended) = (sent.elapsed(), began.elapsed());
            let result = result.map(|execution| execution.answer);
            let refused = result.is_err();
            client.send(ClientEvent { number: query.number, latency, ended, result });
            // A refused query would be refused again at once, so this client stops.
            if refused {
                return;
            }
        }
    };
    let mut outcome = Outcome { clients: sessions.len(), ..Outcome::default() };
    let mut listen = |event: ClientEvent| {
        outcome.elapsed = outcome.elapsed.max(event.ended);
        match verifier.judge(event.number, event.result) {
            Ok(()) => {
                outcome.answered += 1;
                outcome.latency.record(event.latency);
            }
            Err(failure) => outcome.failures.push((event.number, failure)),
        }
        watch(outcome.answered);
    };
    let end = client_pool::run_clients(engine, sessions, stop, worker, &mut listen);
    (outcome, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_on_for_a_time_or_a_number_of_queries() {
        let now = Instant::now();
        assert!(Length::Time(Duration::ZERO).is_over(0, now));
        assert!(!Length::Time(Duration::from_secs(3600)).is_over(1 << 40, now));
        assert!(!Length::Queries(2).is_over(1, now) && Length::Queries(2).is_over(2, now));
    }

    #[test]
    fn pauses_have_the_mean_and_differ_by_client() {
        let think = Think { mean: Duration::from_millis(20), seed: 1 };
        let sum: Duration = think.pauses(0).take(10_000).sum();
        assert!((0.95..1.05).contains(&(sum.as_secs_f64() / 200.0)), "{sum:?}");
        let first = |think: Think, client| think.pauses(client).next().unwrap();
        assert_eq!(first(think, 0), first(think, 0));
        assert_ne!(first(think, 0), first(think, 1));
        assert_ne!(first(think, 0), first(Think { seed: 2, ..think }, 0));
        assert_eq!(first(Think::default(), 0), Duration::ZERO);
    }

    #[test]
    fn throughput_needs_an_answer() {
        let mut outcome = Outcome { elapsed: Duration::from_secs(4), ..Outcome::default() };
        assert_eq!(outcome.queries_per_second(), None);
        outcome.answered = 8;
        assert_eq!(outcome.queries_per_second(), Some(2.0));
    }
}
