//! Runs the cells of experiments: round by round, in random order within a round, so that
//! whatever else the machine does falls on all of them alike.
//!
//! ```text
//!  TrialQueue --next that may begin--> a thread for each trial --ended--> Watcher, Schedule
//!    ^                                                                     |
//!    '------------------------ what failed is not tried again -------------'
//! ```

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Scope};
use std::time::Duration;

use numapilot_place::{Options, Plan, prepare};
use numapilot_topology::Machine;
use numapilot_tune::run::{Execution, RunContext, RunError, execute};

use super::definition::{Experiment, ScaleName};
use super::quantity::At;
use super::schedule::{Ahead, Schedule};
use super::trial::Trial;
use super::trial_queue::{Due, TrialQueue};

/// What is run.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Experiments, in this order.
    pub experiments: &'a [Experiment],
    /// How much of them.
    pub scale: ScaleName,
    /// Rounds, in place of the scale's own number.
    pub repetitions: Option<u32>,
    /// Source of the order within a round.
    pub seed: u64,
    /// Trials at a time, of those that need not be made alone.
    pub jobs: NonZeroUsize,
    /// Machine that programs are started on.
    pub machine: &'a Machine,
    /// Where the shell finds `numapilot`.
    pub programs: &'a Path,
    /// Ends the batch when it becomes true; set when the batch ends by an error.
    pub interrupted: &'a AtomicBool,
}

/// A trial that is being made.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// Of which experiment.
    pub experiment: &'a Experiment,
    /// Its levels.
    pub at: &'a At,
}

/// Told about the progress.
pub trait Watcher {
    /// Why the batch has to end.
    type Error: From<RunError>;
    /// Before an experiment's trials.
    ///
    /// # Errors
    /// Whatever must end the batch.
    fn begin(&mut self, experiment: &Experiment) -> Result<(), Self::Error>;
    /// Whenever other trials are running than before.
    fn now(&mut self, running: &[Running<'_>], ahead: &Ahead);
    /// After a trial.
    ///
    /// # Errors
    /// Whatever must end the batch: the trial cannot be kept, say.
    fn after(&mut self, trial: &Trial) -> Result<(), Self::Error>;
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// All trials are made.
    Whole,
    /// The user ended it.
    Interrupted,
}

/// A trial that has ended.
type Ended = (Due, Result<Execution, RunError>);

impl Batch<'_> {
    /// Makes the trials that are not among `past`. Nothing runs any more when it returns.
    ///
    /// # Errors
    /// The watcher's, or when nothing can be run at all.
    pub fn run<W: Watcher>(&self, past: &[Trial], watcher: &mut W) -> Result<Finished, W::Error> {
        let schedule = Schedule::new(self.experiments, self.scale, self.repetitions, past);
        thread::scope(|scope| {
            let finished = self.all(scope, schedule, watcher);
            if finished.is_err() {
                // The scope waits for those that still run.
                self.interrupted.store(true, Ordering::Relaxed);
            }
            finished
        })
    }

    fn all<'s, W: Watcher>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        mut schedule: Schedule<'_>,
        watcher: &mut W,
    ) -> Result<Finished, W::Error> {
        let (sender, receiver) = mpsc::channel::<Ended>();
        let mut queue = TrialQueue::new(&schedule, self.seed);
        let mut experiments = self.experiments.iter().enumerate().peekable();
        let mut running: Vec<Due> = Vec::new();
        let mut finished = Finished::Whole;
        loop {
            while finished == Finished::Whole
                && running.len() < self.jobs.get()
                && let Some(due) = queue.next(&schedule, &running)
            {
                let task = &schedule.tasks[due.task];
                while let Some((_, next)) = experiments.next_if(|(e, _)| *e <= task.experiment) {
                    watcher.begin(next)?;
                }
                running.push(due);
                let (sender, command, timeout) = (sender.clone(), &task.command, task.timeout);
                let command = command.clone();
                // Nobody listens when the batch ended by an error.
                scope.spawn(move || drop(sender.send((due, self.one(&command, timeout)))));
            }
            let now: Vec<Running<'_>> =
                running.iter().map(|due| self.running(&schedule, *due)).collect();
            if now.is_empty() {
                break;
            }
            watcher.now(&now, &schedule.ahead(self.jobs));
            let Ok((due, ended)) = receiver.recv() else { break };
            running.retain(|other| *other != due);
            match ended {
                Err(RunError::Interrupted) => finished = Finished::Interrupted,
                ended => {
                    let task = &schedule.tasks[due.task];
                    let trial = Trial::of(&task.command, &task.metrics, due.round, &ended?);
                    watcher.after(&trial)?;
                    schedule.made(due.task, &trial);
                }
            }
        }
        if finished == Finished::Whole {
            // Those whose trials are others' too, or were there.
            experiments.try_for_each(|(_, experiment)| watcher.begin(experiment))?;
        }
        Ok(finished)
    }

    fn running<'a>(&'a self, schedule: &'a Schedule<'_>, due: Due) -> Running<'a> {
        let task = &schedule.tasks[due.task];
        Running { experiment: &self.experiments[task.experiment], at: &task.at }
    }

    fn one(&self, command: &str, timeout: Duration) -> Result<Execution, RunError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut assignment = OsString::from("PATH=");
        assignment.push(self.programs);
        assignment.push(":");
        assignment.push(path);
        let shell = ["sh", "-c", command].map(OsString::from);
        let words: Vec<OsString> =
            [OsString::from("env"), assignment].into_iter().chain(shell).collect();
        let options = Options { strict: false, new_group: true };
        let prepared = prepare(&Plan::default(), self.machine, &words, &options)?;
        let context = RunContext {
            stdin: Stdio::null(),
            directory: None,
            timeout: Some(timeout),
            interrupted: self.interrupted,
        };
        execute(&prepared, context, |_| {})
    }
}

#[cfg(test)]
mod tests;
