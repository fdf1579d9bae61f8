//! One run of a server: starts it under the plan, waits until it is ready, puts the load on it, and
//! stops it.
//!
//! ```text
//!  server  start ---------- ready ------------------- SIGTERM -- ended -- (SIGKILL after a time)
//!  ready     fails, fails, succeeds
//!  load                       start -------- ended                  outside of the plan
//! ```
//!
//! A server that keeps running gets its [load](run_load) again and again.
//!
//! Whatever happens, an interruption included, the server gets the time to stop in order: a
//! database that is killed has to recover at its next start.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use numapilot_observe::Orphans;
use numapilot_place::{Prepared, Running};
use procfs::process::Process;
use rustix::process::Signal;

use super::execution::Execution;
use super::leftovers::{Leftovers, group_of, signal_process};
use super::ready::{Readiness, Ready};
use super::service::Service;
use super::watched::{Memory, Watched};
use super::{RunError, tail};
use crate::evidence::Failure;

/// Time in which a server that has died ends after its load, whose connections it has closed.
const DYING: Duration = Duration::from_millis(200);
/// Time after which what outlives the server in its group is asked to end once more: a process that
/// got SIGTERM after its fork and before its program ran has not seen it.
const ASKED_AGAIN: Duration = Duration::from_secs(2);
/// Pause between two looks at processes that are ending.
const LOOK: Duration = Duration::from_millis(10);

/// What a run of a server needs besides the server.
#[derive(Debug)]
pub struct ServeContext<'a> {
    /// What makes it a server.
    pub service: &'a Service,
    /// The command that asks whether it is ready.
    pub ready: Ready<'a>,
    /// The load.
    pub load: Load<'a>,
    /// How the server's orphans are recognised.
    pub orphans: Orphans,
}

/// A load, once.
#[derive(Debug)]
pub struct Load<'a> {
    /// The command.
    pub command: &'a Prepared,
    /// Its standard input.
    pub stdin: Stdio,
    /// Its time limit.
    pub timeout: Option<Duration>,
    /// Ends the run when it becomes true.
    pub interrupted: &'a AtomicBool,
}

/// A server that has run and ended.
#[derive(Debug)]
pub struct Served {
    /// How the run ended, or why it was broken off.
    pub end: Result<End, RunError>,
    /// Whether the server had ended before it was stopped, and has left processes.
    goes_on: bool,
    /// The server.
    pub server: Stopped,
}

/// A server that has ended.
#[derive(Debug)]
pub struct Stopped {
    /// Its status, output and memory.
    pub execution: Execution,
    /// Numbers of all its processes that were seen.
    pub pids: BTreeSet<i32>,
    /// Its name and number, if it did not end in time and was killed.
    pub killed: Option<String>,
}

/// How a run of a server ended.
#[derive(Debug)]
pub enum End {
    /// The load has run to its end, or to the time limit.
    Loaded(Execution),
    /// The server was not ready in time; how the last attempt to reach it ended.
    NotReady(String),
    /// The server ended before it was ready.
    EndedEarly,
    /// The server ended while the load ran.
    EndedUnderLoad,
    /// The server ended after a load, and before the next one.
    EndedBetween,
}

impl Served {
    /// Why the run failed, if it did. An interruption is no failure.
    pub fn failure(&self, service: &Service) -> Option<Failure> {
        match self.end.as_ref().ok()? {
            End::Loaded(load) => failure_of_load(load),
            End::NotReady(last) => Some(Failure::Server(format!(
                "was not ready within {} s (--ready-timeout); --ready '{}': {last}",
                service.ready_timeout.as_secs_f64(),
                service.ready
            ))),
            End::EndedEarly => Some(self.ended("before it was ready")),
            End::EndedUnderLoad => Some(self.ended("while the load ran")),
            End::EndedBetween => Some(self.ended("after the last load")),
        }
    }

    fn ended(&self, when: &str) -> Failure {
        let status = self.server.execution.finished.status;
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => Failure::Signal(signal),
            (None, code) => Failure::Exit(code.unwrap_or_default()),
        };
        Failure::Server(format!("ended {when}: {how}"))
    }

    /// The output that explains a failure.
    pub fn explanation(&self) -> &str {
        match &self.end {
            Ok(End::Loaded(load)) if !tail(&load.text).is_empty() => &load.text,
            _ => &self.server.execution.text,
        }
    }

    /// Whether the server has never been ready.
    pub fn never_started(&self) -> bool {
        matches!(self.end, Ok(End::NotReady(_) | End::EndedEarly))
    }

    /// Whether the server has gone on in another process than the one that was started. The load may
    /// have run on it all the same.
    pub fn daemonised(&self) -> bool {
        self.goes_on && self.server.execution.finished.status.success()
    }
}

/// Makes a run. `started` is called as soon as the server runs. Only a server that cannot be started
/// or stopped is an error here.
pub fn serve(
    server: &Prepared,
    context: ServeContext<'_>,
    left: &mut Leftovers,
    started: impl FnOnce(&Running),
) -> Result<Served, RunError> {
    let ServeContext { service, ready, load, orphans } = context;
    let mut server = Watched::start(server, Stdio::null(), None, Memory::Beside(orphans))?;
    left.started(server.running());
    started(server.running());
    let end = match wait_until_ready(&mut server, ready, service) {
        Ok(None) => run_load(&mut server, load, left),
        Ok(Some(end)) => Ok(end),
        Err(error) => Err(error),
    };
    Served::stop(server, end, left, service)
}

impl Served {
    /// Stops a server whose run has ended so.
    pub fn stop(
        server: Watched,
        end: Result<End, RunError>,
        left: &Leftovers,
        service: &Service,
    ) -> Result<Self, RunError> {
        let goes_on = server.has_ended()? && left.go_on();
        let server = stop(server, service.stop_timeout)?;
        Ok(Self { end, goes_on, server })
    }
}

/// Waits until the server is ready. Returns how the run has ended, if it is not.
pub fn wait_until_ready(
    server: &mut Watched,
    ready: Ready<'_>,
    service: &Service,
) -> Result<Option<End>, RunError> {
    Ok(match ready.wait(server, service.ready_timeout)? {
        Readiness::Ready => None,
        Readiness::Ended => Some(End::EndedEarly),
        Readiness::TooLate(last) => Some(End::NotReady(last)),
    })
}

/// Runs the load.
pub fn run_load(
    server: &mut Watched,
    load: Load<'_>,
    left: &mut Leftovers,
) -> Result<End, RunError> {
    let Load { command, stdin, timeout, interrupted } = load;
    let mut load = Watched::start(command, stdin, None, Memory::Unmeasured)?;
    left.started(load.running());
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let left = timeout.map(|limit| limit.saturating_sub(load.age()));
        Watched::wait_any(&mut [server, &mut load], left.unwrap_or(Duration::MAX))?;
        if load.has_ended()? {
            let load = load.finish()?;
            let is_dead = load.failure().is_some() && server.running().ended_within(Some(DYING))?;
            return Ok(if is_dead { End::EndedUnderLoad } else { End::Loaded(load) });
        }
        if server.has_ended()? {
            return Ok(End::EndedUnderLoad);
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(End::Loaded(load.finish()?));
        }
    }
}

/// Why a load has failed, if it has.
pub fn failure_of_load(load: &Execution) -> Option<Failure> {
    match load.failure() {
        Some(Failure::Timeout) => Some(Failure::Timeout),
        failure => failure.map(|failure| Failure::Load(failure.to_string())),
    }
}

/// Ends the server: SIGTERM to its group, `limit` for it and its group to end, then SIGKILL.
fn stop(mut server: Watched, limit: Duration) -> Result<Stopped, RunError> {
    let deadline = Instant::now() + limit;
    let time = || deadline.saturating_duration_since(Instant::now());
    if !server.has_ended()? {
        // It may end by itself between the two calls.
        let _ = server.running().signal(libc::SIGTERM);
        while !server.has_ended()? && !time().is_zero() {
            Watched::wait_any(&mut [&mut server], time())?;
        }
        // A shell that started the server ends before it.
        wait_for_group(&server, deadline);
    }
    let pid = server.running().pid();
    let killed = match server.has_ended()? {
        true => None,
        false => Process::new(pid).and_then(|process| process.stat()).ok(),
    };
    let killed = killed.map(|stat| format!("{} ({pid})", stat.comm));
    let pids = server.pids();
    let execution = server.finish()?;
    Ok(Stopped { execution, pids, killed })
}

/// Waits until the group of a server that was asked to end has ended.
fn wait_for_group(server: &Watched, deadline: Instant) {
    let again = Instant::now() + ASKED_AGAIN;
    let mut asked = BTreeSet::new();
    loop {
        let (members, now) = (group_of(server.running()), Instant::now());
        if members.is_empty() || now >= deadline {
            return;
        }
        if now >= again {
            // Once, because some servers do not end in order when they are asked over and over.
            let missed = members.iter().filter(|process| asked.insert(process.pid));
            missed.for_each(|process| signal_process(process, Signal::TERM));
        }
        std::thread::sleep(LOOK);
    }
}
