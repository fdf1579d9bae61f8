//! Prepares the commands of a run under its plan.

use std::ffi::OsString;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

use numapilot_place::effect::Observer;
use numapilot_place::{Note, Options, PlaceError, Plan, Prepared, Running, guard, live, prepare};

use super::via::FarRun;
use super::{RunError, Runner, end_of_output, execute, tail};

/// With its own process group, a time limit or an interruption can end all of a program's processes.
const OPTIONS: Options = Options { strict: false, new_group: true };

impl Runner<'_> {
    /// Prepares the command under this plan, or says why the plan cannot be applied in full:
    /// measuring a part of a plan would mislead.
    pub(super) fn prepared(&self, plan: &Plan) -> Result<Prepared, String> {
        let prepared = self.prepare(plan).map_err(|error| error.to_string())?;
        let mut notes: Vec<Note> = prepared.notes.clone();
        if self.keeps_running() {
            // All threads are placed from outside.
            notes.retain(|note| note.subject != "threads");
            notes.extend(live::obstacle(plan, &prepared));
        }
        if notes.is_empty() {
            return Ok(prepared);
        }
        // The plan is already named, and several levels of a factor may have the same cause.
        let reasons = notes.iter().map(|note| format!("{}; {}", note.cause, note.remedy));
        Err(reasons.collect::<Vec<_>>().join(". "))
    }

    pub(super) fn prepare(&self, plan: &Plan) -> Result<Prepared, PlaceError> {
        let apart = self.program.service.as_ref().and_then(|service| service.cpus.as_ref());
        let Some(apart) = apart.filter(|_| plan.cpus.is_none()) else {
            return prepare(plan, self.machine, &self.program.command, &OPTIONS);
        };
        let plan = Plan { cpus: Some(apart.server.clone()), ..plan.clone() };
        prepare(&plan, self.machine, &self.program.command, &OPTIONS)
    }

    /// Prepares a shell command.
    pub(super) fn shell(&self, command: &str, plan: &Plan) -> Result<Prepared, PlaceError> {
        let words = ["sh", "-c", command].map(OsString::from);
        prepare(plan, self.machine, &words, &OPTIONS)
    }

    /// Prepares the launcher, which starts the command under this plan elsewhere.
    pub(super) fn launcher(
        &self,
        far: &FarRun,
        plan: &Plan,
        mark: &str,
    ) -> Result<Prepared, RunError> {
        let command = far.command(plan, &self.program.command)?;
        Ok(prepare(&marked(&Plan::default(), mark), self.machine, &command, &OPTIONS)?)
    }

    /// Runs a command before or after a run.
    pub(super) fn run_beside(
        &self,
        option: &'static str,
        command: &str,
        interrupted: &AtomicBool,
    ) -> Result<(), RunError> {
        // Processes that it leaves are intended, and must not be attributed to the run.
        let prepared = self.shell(command, &marked(&Plan::default(), "prepare"))?;
        let execution = execute(&prepared, self.context(Stdio::null(), None, interrupted), |_| {})?;
        let status = execution.finished.status;
        if status.success() {
            return Ok(());
        }
        let tail = end_of_output(&tail(&execution.text));
        Err(RunError::Beside { option, command: command.to_owned(), status, tail })
    }
}

/// Observes whether the plan takes effect in a program that was just started.
pub(super) fn observe(prepared: &Prepared, running: &Running) -> Option<Observer> {
    let expected = prepared.expected();
    if expected.is_empty() {
        return None;
    }
    // Without a thread there is no observation, and no objection to the run.
    Observer::start(expected, running, |_| {}).ok()
}

/// The plan, with the mark of a run in the environment.
pub(super) fn marked(plan: &Plan, mark: &str) -> Plan {
    let mut marked = plan.clone();
    marked.env.insert(guard::RUN.to_owned(), mark.to_owned());
    marked
}
