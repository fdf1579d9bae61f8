//! The warm-up before open and closed loops: every client runs every query once, all clients at the
//! same time. Afterwards nothing is read from disk, every client has filled its caches, and every
//! answer has been checked.

use std::sync::atomic::AtomicBool;

use crate::client_pool::{self, End};
use crate::power::Failure;
use crate::{Answer, Engine, Query, Session, Verifier};

/// Runs the queries. Returns number and cause of those that failed. Calls `watch` with the number
/// that are done.
pub fn run(
    engine: &dyn Engine,
    sessions: &mut [Box<dyn Session>],
    queries: &[Query],
    verifier: &mut Verifier,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(usize),
) -> (Vec<(u32, Failure)>, End) {
    let worker = |session: &mut dyn Session, client: &client_pool::Client<'_, _>| {
        for query in queries {
            let Some(result) = client.run(session, &query.sql) else { return };
            client.send((query.number, result.map(|execution| execution.answer)));
        }
    };
    let (mut done, mut failures) = (0, Vec::new());
    let mut listen = |(number, result): (u32, Result<Answer, String>)| {
        done += 1;
        failures.extend(verifier.judge(number, result).err().map(|failure| (number, failure)));
        watch(done);
    };
    let end = client_pool::run_clients(engine, sessions, stop, worker, &mut listen);
    (failures, end)
}
