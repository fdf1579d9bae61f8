//! Makes one run of a server into the parts that the judge and the report need.

use std::ffi::OsStr;
use std::time::Duration;

use numapilot_observe::Orphans;
use numapilot_place::{Plan, Prepared, guard};

use super::leftovers::{self, Leftovers};
use super::ready::Ready;
use super::serve::{End, ServeContext, serve};
use super::service::Service;
use super::shared_memory::SharedMemory;
use super::{
    Ran, RunError, Runner, end_of_output, foreground, marked, new_mark, observe, stdin, tail,
};
use crate::evidence::{Failure, Order, Remains};
use crate::shape::DEFAULT;

impl Runner<'_> {
    /// Runs a server with its load.
    pub(super) fn run_server(
        &mut self,
        prepared: &Prepared,
        service: &Service,
        mark: String,
        timeout: Option<Duration>,
        order: Order,
    ) -> Result<Ran, RunError> {
        let load_mark = new_mark()?;
        let cpus = service.cpus.as_ref().map(|cpus| cpus.load.clone());
        let beside = marked(&Plan { cpus, ..Plan::default() }, &load_mark);
        let load = self.shell(&service.load, &beside)?;
        let ready = self.shell(&service.ready, &beside)?;
        let ready = Ready { text: &service.ready, command: &ready, interrupted: self.interrupted };
        if !self.ready_waits {
            self.ready_waits = ready.check()?;
        }
        let context = ServeContext {
            service,
            ready,
            load: &load,
            stdin: stdin(self.program.stdin.as_deref(), "--stdin")?,
            timeout,
            interrupted: self.interrupted,
            // The load is a child of this process as well.
            orphans: Orphans::marked(guard::RUN, OsStr::new(&mark)),
        };
        let memory = SharedMemory::before();
        let mut left = Leftovers::before(vec![mark, load_mark]);
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
        let without = observer.and_then(|observer| self.without_effect(observer.finish()));
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
        let seconds = served.server.wall.as_secs_f64();
        let server_peak = served.server.execution.peak_rss_bytes;
        let (text, metric_seconds) = match served.end? {
            End::Loaded(load) => (load.text, load.finished.wall.as_secs_f64()),
            End::NotReady(_) | End::EndedEarly | End::EndedUnderLoad => (String::new(), seconds),
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
