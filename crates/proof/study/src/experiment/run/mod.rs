//! Runs the cells of experiments in rounds, in random order within each round, so other load on the
//! machine affects all cells alike.
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

/// The variable from which `numapilot lab run` takes its seed.
const SEED: &str = "NUMAPILOT_LAB_SEED";

/// What to run.
#[derive(Debug)]
pub struct Batch<'a> {
    /// The experiments, in this order.
    pub experiments: &'a [Experiment],
    /// The scale.
    pub scale: ScaleName,
    /// Number of rounds, instead of the scale's number.
    pub repetitions: Option<u32>,
    /// Seed of the order within a round.
    pub seed: u64,
    /// Number of simultaneous trials, for trials that need not run alone.
    pub jobs: NonZeroUsize,
    /// The machine that programs are started on.
    pub machine: &'a Machine,
    /// The directory in which the shell finds `numapilot`.
    pub programs: &'a Path,
    /// Ends the batch when set; also set when the batch ends with an error.
    pub interrupted: &'a AtomicBool,
}

/// A running trial.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The levels.
    pub at: &'a At,
}

/// Receives progress.
pub trait Watcher {
    /// The error that ends the batch.
    type Error: From<RunError>;
    /// Called before the trials of an experiment.
    ///
    /// # Errors
    /// Any error that must end the batch.
    fn begin(&mut self, experiment: &Experiment) -> Result<(), Self::Error>;
    /// Called whenever the set of running trials changes.
    fn now(&mut self, running: &[Running<'_>], ahead: &Ahead);
    /// Called after a trial.
    ///
    /// # Errors
    /// Any error that must end the batch, for example when the trial cannot be stored.
    fn after(&mut self, trial: &Trial) -> Result<(), Self::Error>;
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// All trials have run.
    Whole,
    /// The user interrupted the batch.
    Interrupted,
}

/// A trial that has ended.
type Ended = (Due, Result<Execution, RunError>);

impl Batch<'_> {
    /// Runs the trials that are not in `past`. When it returns, nothing runs any more.
    ///
    /// # Errors
    /// The watcher's error, or one that prevents all trials from running.
    pub fn run<W: Watcher>(&self, past: &[Trial], watcher: &mut W) -> Result<Finished, W::Error> {
        let schedule = Schedule::new(self.experiments, self.scale, self.repetitions, past);
        thread::scope(|scope| {
            let finished = self.all(scope, schedule, watcher);
            if finished.is_err() {
                // The scope waits for the trials that still run.
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
                // The receiver is gone when the batch ended with an error.
                scope.spawn(move || {
                    drop(sender.send((due, self.one(&command, due.round, timeout))))
                });
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
            // These experiments share all their trials with others, or had them already.
            experiments.try_for_each(|(_, experiment)| watcher.begin(experiment))?;
        }
        Ok(finished)
    }

    fn running<'a>(&'a self, schedule: &'a Schedule<'_>, due: Due) -> Running<'a> {
        let task = &schedule.tasks[due.task];
        Running { experiment: &self.experiments[task.experiment], at: &task.at }
    }

    fn one(&self, command: &str, round: u32, timeout: Duration) -> Result<Execution, RunError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut assignment = OsString::from("PATH=");
        assignment.push(self.programs);
        assignment.push(":");
        assignment.push(path);
        let shell = ["sh", "-c", command].map(OsString::from);
        // Repetitions on an emulated machine differ by their seeds alone.
        let seed = OsString::from(format!("{SEED}={}", u64::from(round) + 1));
        let words: Vec<OsString> =
            [OsString::from("env"), assignment, seed].into_iter().chain(shell).collect();
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
