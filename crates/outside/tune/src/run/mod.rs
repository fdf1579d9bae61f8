//! Runs the program under a plan and judges the result.
//!
//! ```text
//!  plan --place::prepare--> command --execute--> program's text -----------.
//!                              |                                           judge--> outcome
//!                              '-----serve-----> server, load's text ------'
//!                              '---resident----> load's text --------------'
//! ```

mod baseline;
mod capture;
mod emulated;
mod error;
mod execute;
mod execution;
mod expression;
mod foreground;
mod group;
mod guest;
mod guest_server;
mod judge;
mod leftovers;
mod listeners;
mod no_number;
mod number;
mod output;
mod pace;
mod peak;
mod preparation;
mod ready;
mod resident;
mod serve;
mod server;
mod service;
mod shared_memory;
mod steady;
mod via;
mod watched;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use numapilot_place::effect::Observer;
use numapilot_place::settings_journal::Change;
use numapilot_place::via::Via;
use numapilot_place::{AllocatorChoice, Finished, Plan, Prepared, Running, daemons, guard};
use numapilot_topology::Machine;
use regex::Regex;

use crate::evidence::{Failure, Order, Outcome, Phase, Remains, Trial};
use crate::shape::DEFAULT;
use baseline::{default_timeout, noise};
pub use emulated::Emulated;
use emulated::Guests;
pub use error::RunError;
use error::io_error;
use execute::execute_while;
pub use execute::{RunContext, execute, stdin};
pub use execution::Execution;
pub use expression::expression;
pub use guest_server::GuestServer;
pub use judge::{Judge, Limits, Matches, Metric, MetricError, Written, last_number};
use leftovers::Leftovers;
pub use no_number::NoNumber;
pub use number::{Decimal, NumberError, number};
pub use output::end_of_output;
use output::tail;
use pace::{Curve, Pace};
use preparation::{marked, observe};
use resident::Resident;
pub use service::{Apart, Restart, Service};
use via::FarRun;
use watched::Watched;

/// The program to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Standard input; empty when absent.
    pub stdin: Option<PathBuf>,
    /// A shell command that runs before every run, and is not timed.
    pub prepare: Option<String>,
    /// The launcher that starts it elsewhere, if one does.
    pub via: Option<Via>,
    /// A shell command that runs after every run, and is not timed.
    pub cleanup: Option<String>,
    /// What makes the program a server, of which the load is measured.
    pub service: Option<Service>,
    /// The time limit of a run.
    pub timeout: Option<Duration>,
    /// Finds the progress in what it prints; runs that are hopeless by it are cut short.
    pub progress: Option<Regex>,
}

/// Number of runs begun in this process; it marks each run.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Runs trials.
pub struct Runner<'a> {
    machine: &'a Machine,
    program: Program,
    judge: Judge,
    interrupted: &'a AtomicBool,
    /// Why no allocator can be loaded into this program, once known.
    no_allocator: Option<String>,
    /// The emulated machine on which trials run; `None` for this host.
    guests: Option<Guests>,
    /// The time that is left of the search, if it is limited.
    time_left: Option<Duration>,
    /// Whether a run has succeeded, so that a failure is not that of the command itself.
    has_worked: bool,
    /// Compares the progress of runs, if the program prints any.
    pace: Option<Pace>,
    /// Whether the command of `--ready` waits for a server, and is checked only once.
    ready_waits: bool,
    /// The server that keeps running from run to run, while it does.
    resident: Option<Resident>,
}

/// The parts of a run that the judge and the report need.
struct Ran {
    failure: Option<Failure>,
    /// Whether it is a server that has never been ready.
    never_started: bool,
    /// The least time that it would have taken, if it was cut short.
    bound: Option<f64>,
    /// The output that has the metric.
    text: String,
    /// The output that explains a failure.
    explanation: String,
    /// Wall time that the metric is about.
    metric_seconds: f64,
    /// Wall time of all of it.
    seconds: f64,
    peak_rss_bytes: Option<u64>,
    remains: Remains,
}

impl<'a> Runner<'a> {
    /// Makes a runner. A run in progress ends when `interrupted` becomes true.
    #[must_use]
    pub fn new(
        machine: &'a Machine,
        program: Program,
        judge: Judge,
        interrupted: &'a AtomicBool,
    ) -> Self {
        let pace = program.progress.clone().map(Pace::new);
        Self {
            machine,
            program,
            pace,
            judge,
            interrupted,
            no_allocator: None,
            guests: None,
            time_left: None,
            has_worked: false,
            ready_waits: false,
            resident: None,
        }
    }

    /// Runs trials on an emulated machine. A time limit that was given is that of one guest alone.
    #[must_use]
    pub fn on(mut self, emulated: Emulated) -> Self {
        let guests = Guests::new(emulated);
        self.program.timeout = self.program.timeout.map(|limit| guests.side_by_side(limit));
        Self { guests: Some(guests), ..self }
    }

    /// Announces the next runs, after those in the evidence: guests run ahead, side by side.
    pub fn expect(&mut self, orders: impl IntoIterator<Item = (Order, Plan)>, evidence: &[Trial]) {
        if let Some(guests) = &mut self.guests {
            guests.expect(orders, evidence);
        }
    }

    /// Checks whether this plan can be applied to the program in full. Returns the machine-wide
    /// settings that it changes.
    ///
    /// # Errors
    /// Why it cannot be applied, with the remedy.
    pub fn applies(&self, plan: &Plan) -> Result<Vec<Change>, String> {
        self.prepared(plan).map(|prepared| prepared.machine_wide().to_vec())
    }

    /// Sets the answer that the default gave in an earlier part of the search.
    pub fn restore_answer(&mut self, answer: Option<String>) {
        self.judge.restore_answer(answer);
    }

    /// Sets the time limit of a run from the default's runs, unless one was given. Without either,
    /// the time that is left of the search is the limit.
    pub fn learn(&mut self, trials: &[Trial], time_left: Option<Duration>) {
        self.time_left = time_left;
        if let Some(pace) = &mut self.pace {
            pace.learn(noise(trials));
        }
        self.has_worked = trials.iter().any(|trial| trial.failure().is_none());
        if let Some(guests) = &mut self.guests {
            guests.has_worked = self.has_worked;
        }
        if self.program.timeout.is_none() {
            let timeout = default_timeout(trials);
            self.program.timeout = match &self.guests {
                Some(guests) => timeout.map(|timeout| guests.timeout(timeout)),
                None => timeout,
            };
        }
    }

    /// Sets the format of the metric's numbers from an earlier part of the search.
    pub fn restore_written(&mut self, written: Written) {
        self.judge.restore_written(written);
    }

    /// The format of the metric's numbers so far.
    #[must_use]
    pub fn written(&self) -> &Written {
        self.judge.written()
    }

    /// The answer that all plans must give, once the default has given it.
    #[must_use]
    pub fn answer(&self) -> Option<&str> {
        self.judge.answer()
    }

    /// Makes one run. Processes that it leaves running are ended, because they would disturb the
    /// next run.
    ///
    /// # Errors
    /// [`RunError`] if the user interrupts, or if the machine cannot run anything. A program that
    /// fails is not an error.
    pub fn run(&mut self, order: Order, plan: &Plan) -> Result<Trial, RunError> {
        if self.interrupted.load(Ordering::Relaxed) {
            // Neither --prepare nor --cleanup runs.
            return Err(RunError::Interrupted);
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let began_ms = since_1970.and_then(|time| u64::try_from(time.as_millis()).ok());
        if self.keeps_running() {
            let trial = self.run_prepared(order, plan)?;
            return Ok(Trial { began_ms, ..trial });
        }
        let prepared = self.prepare_run();
        let trial = prepared.and_then(|()| self.run_prepared(order, plan));
        self.clean_up(trial.map(|trial| Trial { began_ms, ..trial }))
    }

    /// Whether the program is a server that keeps running from run to run.
    fn keeps_running(&self) -> bool {
        self.program.service.as_ref().is_some_and(|service| service.restart == Restart::Never)
    }

    /// Runs `--prepare`.
    fn prepare_run(&self) -> Result<(), RunError> {
        match &self.program.prepare {
            Some(command) => self.run_beside("--prepare (--setup)", command, self.interrupted),
            None => Ok(()),
        }
    }

    /// Runs `--cleanup` after a run that has this result.
    fn clean_up<T>(&self, result: Result<T, RunError>) -> Result<T, RunError> {
        let Some(command) = &self.program.cleanup else { return result };
        // After an interruption, it is run all the same: it puts back what --prepare has done.
        let cleaned = self.run_beside("--cleanup", command, &AtomicBool::new(false));
        match (result, cleaned) {
            // What could not be put back is worse than the interruption.
            (Ok(_) | Err(RunError::Interrupted), Err(error)) => Err(error),
            (result, _) => result,
        }
    }

    fn run_prepared(&mut self, order: Order, plan: &Plan) -> Result<Trial, RunError> {
        let timeout = self.program.timeout.or(self.time_left);
        if let Some(guests) = &mut self.guests {
            let program = Program { timeout, ..self.program.clone() };
            return guests.run(order, self.machine, &program, &mut self.judge, self.interrupted);
        }
        let mark = new_mark()?;
        let via = self.program.via.clone();
        let far = via.map(|via| FarRun::begin(via, &mark)).transpose()?;
        let marked = marked(plan, &mark);
        let prepared = match &far {
            Some(far) => Ok(self.launcher(far, plan, &mark)?),
            None if self.keeps_running() => self.prepared(plan),
            None => self.prepared(&marked),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(_) if order.candidate == DEFAULT => self.prepare(&marked)?,
            Err(reason) => return Ok(not_applied(order, reason)),
        };
        if far.is_none()
            && plan.allocator != AllocatorChoice::Inherit
            && let Some(reason) = &self.no_allocator
        {
            return Ok(not_applied(order, reason.clone()));
        }
        let ran = match self.program.service.clone() {
            Some(service) if self.keeps_running() => {
                self.run_on_resident(&prepared, &service, timeout, order)
            }
            Some(service) => self.run_server(&prepared, &service, mark, timeout, order),
            None => self.run_program(&prepared, mark, timeout, order, far.map(|far| (far, plan))),
        };
        let ran = match ran {
            Ok(ran) => ran,
            Err(RunError::Start(error)) if order.candidate != DEFAULT => {
                return Ok(not_applied(order, error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let (outcome, values) = match (ran.failure, ran.bound) {
            (Some(failure), _) => (Outcome::Failed(failure), None),
            (None, Some(bound)) => (Outcome::CutShort(bound), None),
            (None, None) => {
                let bytes = ran.peak_rss_bytes.unwrap_or(0);
                self.judge.judge(order.candidate, &ran.text, ran.metric_seconds, bytes)
            }
        };
        let output = match &outcome {
            Outcome::Value(_) | Outcome::CutShort(_) => String::new(),
            Outcome::Failed(_) => tail(&ran.explanation),
        };
        let remains = Remains { output, ..ran.remains };
        let trial = Trial::new(order, ran.seconds, outcome);
        Ok(Trial { peak_rss_bytes: ran.peak_rss_bytes, values, remains, ..trial })
    }

    /// Runs a program, or the launcher that starts it elsewhere under a plan, to its end.
    fn run_program(
        &mut self,
        prepared: &Prepared,
        mark: String,
        timeout: Option<Duration>,
        order: Order,
        far: Option<(FarRun, &Plan)>,
    ) -> Result<Ran, RunError> {
        let input = stdin(self.program.stdin.as_deref(), "--stdin")?;
        let context = self.context(input, timeout, self.interrupted);
        let mut left = Leftovers::before(vec![mark]);
        let mut observer = None;
        let watch = |running: &Running| {
            left.started(running);
            observer = observe(prepared, running);
        };
        let pace = self.pace.as_ref();
        let (mut curve, mut bound) = (Curve::default(), None);
        // The default and the plans of rounds, whose figures are compared, always run to their end.
        let may_be_cut =
            order.candidate != DEFAULT && matches!(order.phase, Phase::Screen | Phase::Refine);
        let goes_on = |program: &mut Watched| {
            let Some(pace) = pace else { return true };
            let (age, lines) = (program.age().as_secs_f64(), program.fresh_lines());
            bound = pace.hopeless(&mut curve, &lines, age).filter(|_| may_be_cut);
            bound.is_none()
        };
        let execution = match execute_while(prepared, context, watch, goes_on) {
            Ok(execution) => execution,
            Err(error) => {
                let _ = left.end(Duration::ZERO);
                return Err(error);
            }
        };
        let without = self.without_effect(observer, &execution.finished);
        let failure = match far {
            Some((far, plan)) => far.failure(plan, execution.failure()),
            // A run that was cut short did not end by itself, which is not a failure.
            None if bound.is_some() => without.map(Failure::NotApplied),
            None => execution.failure().or(without.map(Failure::NotApplied)),
        };
        let patience = if failure.is_none() { leftovers::PATIENCE } else { Duration::ZERO };
        let left = left.end(patience);
        let Execution { finished, text, peak_rss_bytes } = execution;
        let peak_rss_bytes = left.peak_rss_bytes.max(peak_rss_bytes);
        let seconds = finished.wall.as_secs_f64();
        if let (Some(pace), None, None) = (&mut self.pace, &failure, bound) {
            if order.candidate == DEFAULT
                && let Some(expression) = pace.unmatched(&text)
            {
                return Err(RunError::NoProgress { expression: expression.to_owned() });
            }
            pace.finished(curve, seconds);
        }
        Ok(Ran {
            failure,
            never_started: false,
            bound,
            explanation: text.clone(),
            text,
            metric_seconds: seconds,
            seconds,
            peak_rss_bytes: (!finished.timed_out).then_some(peak_rss_bytes),
            remains: Remains { ended: left.processes, ..Remains::default() },
        })
    }

    /// Why the figures of a run do not count, if a setting of its plan had no effect.
    fn without_effect(
        &mut self,
        observer: Option<Observer>,
        finished: &Finished,
    ) -> Option<String> {
        let seen = observer.map(Observer::finish).unwrap_or_default();
        // Figures of a program for which a daemon has done nothing would be taken for its effect.
        if let Some(note) = finished.daemons.iter().find_map(daemons::Outcome::idle_note) {
            return Some(note.to_string());
        }
        let (seen, note) =
            seen.into_iter().find_map(|seen| seen.note().map(|note| (seen, note)))?;
        if seen.is_of_program {
            // The reason applies to every allocator, so it names none.
            let reason = format!("allocators are {}; {}", note.cause, note.remedy);
            self.no_allocator = Some(reason.clone());
            return Some(reason);
        }
        Some(note.to_string())
    }

    fn context<'i>(
        &self,
        stdin: Stdio,
        timeout: Option<Duration>,
        interrupted: &'i AtomicBool,
    ) -> RunContext<'i> {
        RunContext { stdin, directory: None, timeout, interrupted }
    }
}

/// A mark for the processes of a new run.
fn new_mark() -> Result<String, RunError> {
    let number = BEGUN.fetch_add(1, Ordering::Relaxed);
    guard::run_mark(number)
        .map_err(|error| io_error("cannot read this process's start in /proc", error))
}

fn not_applied(order: Order, reason: String) -> Trial {
    Trial::new(order, 0.0, Outcome::Failed(Failure::NotApplied(reason)))
}

#[cfg(test)]
mod tests;
