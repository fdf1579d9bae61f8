//! A server that keeps running: each run changes its plan, and puts the load on it.
//!
//! ```text
//!  --prepare  server  start, ready ............................................ SIGTERM  --cleanup
//!             plan                  |   default   |   plan   |   plan   |
//!             load                     start-ended  start-ended  start-ended
//! ```
//!
//! A server that dies is started again for the next run. Its first load then does not count, because
//! the caches of a server that runs are warm.

use std::ffi::OsStr;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;

use numapilot_observe::Orphans;
use numapilot_place::live::Live;
use numapilot_place::{Plan, Prepared, guard};

use super::leftovers::{self, Leftovers};
use super::serve::{End, Served, failure_of_load, run_load, wait_until_ready};
use super::server::Beside;
use super::service::Service;
use super::shared_memory::SharedMemory;
use super::watched::{Memory, Watched};
use super::{Ran, RunError, Runner, marked, new_mark};
use crate::evidence::{Failure, Order, Remains};

/// A running server.
#[derive(Debug)]
pub(super) struct Resident {
    server: Watched,
    live: Live,
    left: Leftovers,
    memory: SharedMemory,
}

impl Runner<'_> {
    /// Runs the load under a plan, on the server that runs. Starts the server if none runs.
    pub(super) fn run_on_resident(
        &mut self,
        prepared: &Prepared,
        service: &Service,
        timeout: Option<Duration>,
        order: Order,
    ) -> Result<Ran, RunError> {
        let beside = self.beside(service)?;
        let mut resident = match self.resident.take() {
            Some(resident) => resident,
            None => match self.start_resident(service, &beside, timeout, order)? {
                Ok(resident) => resident,
                Err(ran) => return Ok(ran),
            },
        };
        if resident.server.has_ended()? {
            return self.stop_resident(resident, Ok(End::EndedBetween), service, order);
        }
        let window = match resident.live.change(prepared, self.interrupted) {
            Ok(window) => window,
            Err(error) => {
                self.resident = Some(resident);
                return Err(match self.interrupted.load(Ordering::Relaxed) {
                    true => RunError::Interrupted,
                    false => error.into(),
                });
            }
        };
        let mut left = Leftovers::beside(vec![beside.mark.clone()], resident.server.running());
        let load = self.load(&beside, timeout);
        let end = load.and_then(|load| run_load(&mut resident.server, load, &mut left));
        let notes = window.end();
        let load = match end {
            Ok(End::Loaded(load)) => load,
            Err(error) => {
                let _ = left.end(Duration::ZERO);
                self.resident = Some(resident);
                return Err(error);
            }
            Ok(end) => {
                let ended = left.end(Duration::ZERO).processes;
                let mut ran = self.stop_resident(resident, Ok(end), service, order)?;
                ran.remains.ended.extend(ended);
                return Ok(ran);
            }
        };
        self.resident = Some(resident);
        let without = || {
            let first = notes.first()?;
            Some(Failure::NotApplied(first.to_string()))
        };
        let failure = failure_of_load(&load).or_else(without);
        let patience = if failure.is_none() { leftovers::PATIENCE } else { Duration::ZERO };
        let seconds = load.finished.wall.as_secs_f64();
        Ok(Ran {
            failure,
            never_started: false,
            bound: None,
            explanation: load.text.clone(),
            text: load.text,
            metric_seconds: seconds,
            seconds,
            // That of the server is of all plans.
            peak_rss_bytes: None,
            remains: Remains { ended: left.end(patience).processes, ..Remains::default() },
        })
    }

    /// Starts the server under no plan. Returns the run that has failed, if it does not get ready.
    fn start_resident(
        &mut self,
        service: &Service,
        beside: &Beside,
        timeout: Option<Duration>,
        order: Order,
    ) -> Result<Result<Resident, Ran>, RunError> {
        if let Err(error) = self.prepare_run() {
            return self.clean_up(Err(error));
        }
        let mark = new_mark()?;
        let prepared = self.prepare(&marked(&Plan::default(), &mark))?;
        let ready = self.ready(service, beside)?;
        let orphans = Orphans::marked(guard::RUN, OsStr::new(&mark));
        let memory = SharedMemory::before();
        let mut left = Leftovers::before(vec![mark, beside.mark.clone()]);
        let mut server =
            Watched::start(&prepared, Stdio::null(), None, Memory::Beside(orphans.clone()))?;
        left.started(server.running());
        let live = Live::of(server.running(), &prepared, orphans)?;
        let mut end = wait_until_ready(&mut server, ready, service);
        if let (Ok(None), true) = (&end, self.has_worked) {
            let load = self.load(beside, timeout);
            let ended = load.and_then(|load| run_load(&mut server, load, &mut left));
            end = ended.map(|end| Some(end).filter(|end| !matches!(end, End::Loaded(_))));
        }
        let resident = Resident { server, live, left, memory };
        match end {
            Ok(None) => Ok(Ok(resident)),
            Ok(Some(end)) => self.stop_resident(resident, Ok(end), service, order).map(Err),
            Err(error) => self.stop_resident(resident, Err(error), service, order).map(Err),
        }
    }

    /// Stops the server, whose run has ended so.
    fn stop_resident(
        &self,
        resident: Resident,
        end: Result<End, RunError>,
        service: &Service,
        order: Order,
    ) -> Result<Ran, RunError> {
        let Resident { server, left, memory, .. } = resident;
        let ran = Served::stop(server, end, &left, service)
            .and_then(|served| self.ended(served, service, left, &memory, None, order));
        self.clean_up(ran)
    }

    /// Stops a server that keeps running from run to run. To be called after the last run. Returns
    /// what it has left, which was ended and removed.
    ///
    /// # Errors
    /// [`RunError`] if it cannot be stopped, or `--cleanup` fails.
    pub fn finish(&mut self) -> Result<Remains, RunError> {
        let (Some(resident), Some(service)) = (self.resident.take(), &self.program.service) else {
            return Ok(Remains::default());
        };
        let Resident { server, left, memory, .. } = resident;
        let stopped = Served::stop(server, Err(RunError::Interrupted), &left, service);
        let ended = stopped.map(|served| {
            let processes = left.end(leftovers::PATIENCE).processes;
            Remains {
                ended: served.server.killed.into_iter().chain(processes).collect(),
                removed: memory.remove(&served.server.pids),
                ..Remains::default()
            }
        });
        self.clean_up(ended)
    }
}
