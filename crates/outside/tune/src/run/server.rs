//! Makes one run of a server into the parts that the judge and the report need.

use std::ffi::OsStr;
use std::time::Duration;

use numapilot_observe::Orphans;
use numapilot_place::{Plan, Prepared, guard};

use super::leftovers::{self, Leftovers};
use super::listeners::Listeners;
use super::ready::Ready;
use super::serve::{End, Load, ServeContext, Served, serve};
use super::service::Service;
use super::shared_memory::SharedMemory;
use super::{
    Ran, RunError, Runner, end_of_output, foreground, marked, new_mark, observe, stdin, tail,
};
use crate::evidence::{Failure, Order, Remains};
use crate::shape::DEFAULT;

/// What runs beside a server, outside of its plan.
#[derive(Debug)]
pub(super) struct Beside {
    /// The mark of its processes.
    pub mark: String,
    ready: Prepared,
    load: Prepared,
}

impl Runner<'_> {
    /// Prepares what runs beside a server.
    pub(super) fn beside(&self, service: &Service) -> Result<Beside, RunError> {
        let mark = new_mark()?;
        let cpus = service.cpus.as_ref().map(|cpus| cpus.load.clone());
        let beside = marked(&Plan { cpus, ..Plan::default() }, &mark);
        let load = self.shell(&service.load, &beside)?;
        let ready = self.shell(&service.ready, &beside)?;
        Ok(Beside { mark, ready, load })
    }

    /// The command that asks whether the server is ready, which it must not be before its start.
    pub(super) fn ready<'b>(
        &mut self,
        service: &'b Service,
        beside: &'b Beside,
    ) -> Result<Ready<'b>, RunError>
    where
        Self: 'b,
    {
        let interrupted = self.interrupted;
        let before = Listeners::now();
        let ready = Ready { text: &service.ready, command: &beside.ready, interrupted, before };
        if !self.ready_waits {
            self.ready_waits = ready.check()?;
        }
        Ok(ready)
    }

    /// The load, from the beginning of its input.
    pub(super) fn load<'b>(
        &self,
        beside: &'b Beside,
        timeout: Option<Duration>,
    ) -> Result<Load<'b>, RunError>
    where
        Self: 'b,
    {
        let stdin = stdin(self.program.stdin.as_deref(), "--stdin")?;
        Ok(Load { command: &beside.load, stdin, timeout, interrupted: self.interrupted })
    }

    /// Runs a server with its load.
    pub(super) fn run_server(
        &mut self,
        prepared: &Prepared,
        service: &Service,
        mark: String,
        timeout: Option<Duration>,
        order: Order,
    ) -> Result<Ran, RunError> {
        let beside = self.beside(service)?;
        let ready = self.ready(service, &beside)?;
        let load = self.load(&beside, timeout)?;
        // The load is a child of this process as well.
        let orphans = Orphans::marked(guard::RUN, OsStr::new(&mark));
        let context = ServeContext { service, ready, load, orphans };
        let memory = SharedMemory::before();
        let mut left = Leftovers::before(vec![mark, beside.mark.clone()]);
        let mut observer = None;
        let served = match serve(prepared, context, &mut left, |running| {
            observer = observe(prepared, running)
        }) {
            Ok(served) => served,
            Err(error) => {
                let _ = left.end(Duration::ZERO);
                return Err(error);
            }
        };
        let without = self.without_effect(observer, &served.server.execution.finished);
        self.ended(served, service, left, &memory, without, order)
    }

    /// The run of a server that has ended. `without` tells why its plan had no effect.
    pub(super) fn ended(
        &self,
        served: Served,
        service: &Service,
        left: Leftovers,
        memory: &SharedMemory,
        without: Option<String>,
        order: Order,
    ) -> Result<Ran, RunError> {
        let failure = served.failure(service);
        let patience = if failure.is_none() { leftovers::PATIENCE } else { Duration::ZERO };
        let left = left.end(patience);
        let removed = memory.remove(&served.server.pids);
        if served.end.is_ok() && served.daemonised() {
            let remedy = foreground::remedy(&self.program.command);
            return Err(RunError::Daemonised { remedy });
        }
        let explanation = served.explanation().to_owned();
        let never_started = served.never_started();
        if let Some(failure) = failure.as_ref().filter(|_| never_started)
            && order.candidate == DEFAULT
            && !self.has_worked
        {
            // Repeating it, as for a failure by chance, would take a minute each.
            let (failure, tail) = (failure.clone(), tail(&explanation));
            let remedy = remedy(&tail, rustix::process::geteuid().is_root());
            return Err(RunError::Server { failure, remedy, tail: end_of_output(&tail) });
        }
        let seconds = served.server.execution.finished.wall.as_secs_f64();
        let server_peak = served.server.execution.peak_rss_bytes;
        let (text, metric_seconds) = match served.end? {
            End::Loaded(load) => (load.text, load.finished.wall.as_secs_f64()),
            End::NotReady(_) | End::EndedEarly | End::EndedUnderLoad | End::EndedBetween => {
                (String::new(), seconds)
            }
        };
        Ok(Ran {
            bound: None,
            never_started,
            failure: failure.or(without.map(Failure::NotApplied)),
            text,
            explanation,
            metric_seconds,
            seconds,
            peak_rss_bytes: Some(left.peak_rss_bytes.max(server_peak)),
            remains: Remains {
                ended: served.server.killed.into_iter().chain(left.processes).collect(),
                removed,
                ..Remains::default()
            },
        })
    }
}

/// The remedy for a server that does not start, by what it prints and whether it ran as root.
pub(super) fn remedy(output: &str, is_root: bool) -> &'static str {
    let output = output.to_lowercase();
    if output.contains("address already in use") {
        return "; another process uses its port or socket (ss -lp shows which on a host)";
    }
    let is_about_root = output.contains("root") || output.contains("privileg");
    if is_about_root && is_root {
        return "; if it must not run as root, put setpriv --reuid=USER --regid=GROUP --init-groups \
                before it";
    }
    ""
}
