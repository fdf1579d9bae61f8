//! Runs the cells of experiments: round by round, in random order within a round, so that
//! whatever else the machine does falls on all of them alike.
//!
//! What numapilot says it cannot do here (status 125, with the reason), and what is not
//! installed (126, 127), is no failure of the experiment: it is not run here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

use numapilot_place::{Options, Plan, prepare};
use numapilot_topology::Machine;
use numapilot_tune::run::{Execution, RunError, Surroundings, execute};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::{Experiment, Metric, ScaleName};
use super::printed;
use super::schedule::{Ahead, Schedule, Task};

/// Exit statuses of what cannot be done here.
const NOT_HERE: std::ops::RangeInclusive<i32> = 125..=127;

/// A trial that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The line for the shell.
    pub command: String,
    /// From 0.
    pub round: u32,
    /// How long it took in all.
    pub seconds: f64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Metrics, by their [`key`](Metric::key): each the value, or why there is none.
    Values(BTreeMap<String, Result<Value, String>>),
    /// The command failed.
    Failed(String),
    /// It cannot be run here, and why.
    NotHere(String),
}

impl Metric {
    /// What its values are kept under: experiments that share trials may call them otherwise.
    #[must_use]
    pub fn key(&self) -> String {
        match &self.points {
            Some([x, y]) => format!("{}[{x},{y}]", self.field),
            None => self.field.clone(),
        }
    }
}

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
    /// Machine that programs are started on.
    pub machine: &'a Machine,
    /// Where the shell finds `numapilot`.
    pub programs: &'a Path,
    /// Ends the batch when it becomes true.
    pub interrupted: &'a AtomicBool,
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
    /// Before a trial.
    fn before(&mut self, experiment: &Experiment, command: &str, ahead: &Ahead);
    /// After it.
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

impl Batch<'_> {
    /// Makes the trials that are not among `past`.
    ///
    /// # Errors
    /// The watcher's, or when nothing can be run at all.
    pub fn run<W: Watcher>(&self, past: &[Trial], watcher: &mut W) -> Result<Finished, W::Error> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut schedule = Schedule::new(self.experiments, self.scale, self.repetitions, past);
        for (e, experiment) in self.experiments.iter().enumerate() {
            watcher.begin(experiment)?;
            for round in schedule.rounds(e) {
                let mut turn = schedule.turn(e, round);
                turn.shuffle(&mut rng);
                for index in turn {
                    let task = &schedule.tasks[index];
                    watcher.before(experiment, &task.command, &schedule.ahead());
                    let trial = match self.one(task, round) {
                        Err(RunError::Interrupted) => return Ok(Finished::Interrupted),
                        trial => trial?,
                    };
                    watcher.after(&trial)?;
                    schedule.made(index, &trial);
                }
            }
        }
        Ok(Finished::Whole)
    }

    fn one(&self, task: &Task<'_>, round: u32) -> Result<Trial, RunError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut assignment = OsString::from("PATH=");
        assignment.push(self.programs);
        assignment.push(":");
        assignment.push(path);
        let shell = ["sh", "-c", &task.command].map(OsString::from);
        let words: Vec<OsString> =
            [OsString::from("env"), assignment].into_iter().chain(shell).collect();
        let options = Options { strict: false, new_group: true };
        let prepared = prepare(&Plan::default(), self.machine, &words, &options)?;
        let surroundings = Surroundings {
            stdin: Stdio::null(),
            directory: None,
            timeout: Some(task.timeout),
            interrupted: self.interrupted,
        };
        let execution = execute(&prepared, surroundings, |_| {})?;
        Ok(Trial {
            command: task.command.clone(),
            round,
            seconds: execution.finished.wall.as_secs_f64(),
            outcome: outcome(task, &execution),
        })
    }
}

fn outcome(task: &Task<'_>, execution: &Execution) -> Outcome {
    if let Some(failure) = execution.failure() {
        let last = message(&execution.text);
        let code = execution.finished.status.code().filter(|_| !execution.finished.timed_out);
        if execution.finished.status.signal().is_none()
            && code.is_some_and(|c| NOT_HERE.contains(&c))
        {
            return Outcome::NotHere(last);
        }
        return Outcome::Failed(format!("{failure}: {last}"));
    }
    let mut printed = vec![usage(execution)];
    printed.extend(printed::split(&execution.text).0);
    let value = |metric: &&Metric| (metric.key(), printed::metric(metric, &printed));
    Outcome::Values(task.metrics.iter().map(value).collect())
}

/// What the kernel counted of the command and its children, for programs that print nothing.
fn usage(execution: &Execution) -> Value {
    let finished = &execution.finished;
    let usage = &finished.usage;
    serde_json::json!({ "usage": {
        "wall_seconds": finished.wall.as_secs_f64(),
        "cpu_seconds": (usage.user + usage.system).as_secs_f64(),
        "system_seconds": usage.system.as_secs_f64(),
        "peak_rss_bytes": execution.peak_rss_bytes,
        "page_faults": usage.minor_faults + usage.major_faults,
    }})
}

/// What says why: the last line that is no result, or numapilot's own, which begins with its
/// name and may go on below.
fn message(text: &str) -> String {
    const OWN: &str = "numapilot: error: ";
    let (_, lines) = printed::split(text);
    let last = lines.last().map_or("it printed nothing", |line| line).to_owned();
    let own = |(at, line): (usize, &&str)| {
        let (_, first) = line.split_once(OWN)?;
        Some([&[first], &lines[at + 1..]].concat().join(" "))
    };
    let own = lines.iter().enumerate().rev().find_map(own);
    own.unwrap_or(last).chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::experiment::tests::{TINY, tiny};

    #[derive(Default)]
    struct Log {
        trials: Vec<Trial>,
        begun: usize,
    }

    impl Watcher for Log {
        type Error = RunError;
        fn begin(&mut self, _: &Experiment) -> Result<(), RunError> {
            self.begun += 1;
            Ok(())
        }
        fn before(&mut self, _: &Experiment, _: &str, ahead: &Ahead) {
            assert!(ahead.trials > 0, "{ahead:?}");
        }
        fn after(&mut self, trial: &Trial) -> Result<(), RunError> {
            self.trials.push(trial.clone());
            Ok(())
        }
    }

    fn run(experiments: &[Experiment], past: &[Trial], interrupted: bool) -> (Finished, Log) {
        let batch = Batch {
            experiments,
            scale: ScaleName::Smoke,
            repetitions: None,
            seed: 1,
            machine: &Machine::uniform(1, 1),
            programs: Path::new("/nonexistent"),
            interrupted: &AtomicBool::new(interrupted),
        };
        let mut log = Log::default();
        let finished = batch.run(past, &mut log).unwrap();
        (finished, log)
    }

    #[test]
    fn every_round_has_every_cell_and_what_is_there_is_not_run_again() {
        let (finished, log) = run(&[tiny()], &[], false);
        assert_eq!((finished, log.trials.len(), log.begun), (Finished::Whole, 6, 1));
        for round in 0..3 {
            let commands: BTreeSet<&str> =
                log.trials[2 * round..2 * round + 2].iter().map(|t| t.command.as_str()).collect();
            assert_eq!(commands.len(), 2, "round {round}");
        }
        let (_, again) = run(&[tiny()], &log.trials[..4], false);
        assert_eq!(again.trials.len(), 2);
        // Another experiment that wants another number of the same trials.
        let other = TINY.replace("field = \"seconds\"", "field = \"usage.wall_seconds\"");
        let other = Experiment::parse("other", &other).unwrap();
        let (_, more) = run(std::slice::from_ref(&other), &log.trials, false);
        assert_eq!(more.trials.len(), 6);
        let (_, both) = run(&[tiny(), other], &[], false);
        assert_eq!((both.trials.len(), both.begun), (6, 2));
    }

    #[test]
    fn what_cannot_be_run_here_is_no_failure_and_is_tried_once() {
        let with = |script: &str| {
            let text = TINY.replace("command = \"", &format!("command = \"{script}; "));
            run(&[Experiment::parse("tiny", &text).unwrap()], &[], false).1.trials
        };
        let gone = with("echo numapilot: error: no QEMU, install it >&2; exit 125");
        assert_eq!(gone.len(), 2);
        assert_eq!(gone[0].outcome, Outcome::NotHere("no QEMU, install it".to_owned()));
        assert!(matches!(&with("no-such-program-here || exit")[0].outcome, Outcome::NotHere(_)));
        let loader = "echo x: cannot open libunwind.so.8; echo '[0]'; exit 127";
        let loader = &with(loader)[0].outcome;
        assert_eq!(*loader, Outcome::NotHere("x: cannot open libunwind.so.8".to_owned()));
        let failed = with("echo why; exit 3");
        assert_eq!(failed[0].outcome, Outcome::Failed("exit status 3: why".to_owned()));
    }

    #[test]
    fn an_interruption_ends_it() {
        let (finished, log) = run(&[tiny()], &[], true);
        assert_eq!((finished, log.trials.len()), (Finished::Interrupted, 0));
    }
}
