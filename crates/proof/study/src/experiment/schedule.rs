//! The trials that experiments still need, and their estimated time.
//!
//! For a command that has run before, the estimate is the median of its trials. For another command
//! of the same experiment, it is the mean of these medians. Nothing is inferred from one experiment
//! for another.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use numapilot_tune::statistics::median;
use serde::Serialize;

use super::cells::cells;
use super::definition::{Experiment, Metric, ScaleName};
use super::quantity::At;
use super::trial::{Outcome, Trial};

/// The trials of a batch.
#[derive(Debug)]
pub struct Schedule<'a> {
    pub(super) tasks: Vec<Task<'a>>,
    trials: usize,
    /// Seconds that trials took, by command.
    took: BTreeMap<String, Vec<f64>>,
}

/// A distinct command. Experiments that share it share its trials.
#[derive(Debug)]
pub(super) struct Task<'a> {
    /// Index of the first experiment that has the command.
    pub experiment: usize,
    /// The levels in that experiment.
    pub at: At,
    pub command: String,
    /// Whether the command must run alone for any experiment that has it.
    pub alone: bool,
    pub timeout: Duration,
    /// The metrics that all experiments read from it.
    pub metrics: Vec<&'a Metric>,
    /// The rounds that have not run.
    pub due: BTreeSet<u32>,
    /// Whether any trial of the command has produced values.
    pub works: bool,
}

/// The remaining trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ahead {
    /// Number of trials.
    pub trials: usize,
    /// Estimated time in total, without the `unknown` ones.
    pub seconds: f64,
    /// Number of trials of experiments that have no trial yet.
    pub unknown: usize,
}

impl<'a> Schedule<'a> {
    /// Schedules the trials that are not in `past`, with `repetitions` instead of the scale's
    /// number.
    #[must_use]
    pub fn new(
        experiments: &'a [Experiment],
        scale: ScaleName,
        repetitions: Option<u32>,
        past: &[Trial],
    ) -> Self {
        let mut tasks: Vec<Task<'a>> = Vec::new();
        for (e, experiment) in experiments.iter().enumerate() {
            let Some(own) = experiment.at(scale) else { continue };
            let timeout = Duration::from_secs(own.timeout_seconds.into());
            let rounds = 0..repetitions.unwrap_or(own.repetitions);
            for cell in cells(experiment, scale) {
                let metrics = experiment.metrics.values();
                match tasks.iter_mut().find(|task| task.command == cell.command) {
                    Some(task) => {
                        task.metrics.extend(metrics);
                        task.due.extend(rounds.clone());
                        task.timeout = task.timeout.max(timeout);
                        task.alone |= experiment.is_alone();
                    }
                    None => tasks.push(Task {
                        experiment: e,
                        at: cell.at,
                        command: cell.command,
                        alone: experiment.is_alone(),
                        timeout,
                        metrics: metrics.collect(),
                        due: rounds.clone().collect(),
                        works: false,
                    }),
                }
            }
        }
        let trials = tasks.iter().map(|task| task.due.len()).sum();
        let mut schedule = Self { tasks, trials, took: BTreeMap::new() };
        for trial in past {
            schedule.learn(trial);
            let mut tasks = schedule.tasks.iter_mut();
            if let Some(task) = tasks.find(|task| task.command == trial.command) {
                task.works |= matches!(trial.outcome, Outcome::Values(_));
                // The cause of an earlier failure may be gone.
                if task.has_all_of(&trial.outcome) {
                    task.due.remove(&trial.round);
                }
            }
        }
        schedule
    }

    /// The number of trials in total, run or not.
    #[must_use]
    pub fn trials(&self) -> usize {
        self.trials
    }

    /// The remaining trials, when `jobs` of those that need not run alone run at once.
    #[must_use]
    pub fn ahead(&self, jobs: NonZeroUsize) -> Ahead {
        let mut ahead = Ahead::default();
        let mut shared = 0.0;
        let mut longest: f64 = 0.0;
        for task in self.tasks.iter().filter(|task| !task.due.is_empty()) {
            let trials = task.due.len();
            ahead.trials += trials;
            match self.seconds(task) {
                Some(each) if task.alone => ahead.seconds += each * trials as f64,
                Some(each) => {
                    shared += each * trials as f64;
                    longest = longest.max(each);
                }
                None => ahead.unknown += trials,
            }
        }
        ahead.seconds += longest.max(shared / jobs.get() as f64);
        ahead
    }

    /// Indices of the tasks of an experiment that are due in a round.
    pub(super) fn turn(&self, experiment: usize, round: u32) -> Vec<usize> {
        let is_due = |task: &Task<'_>| task.experiment == experiment && task.due.contains(&round);
        (0..self.tasks.len()).filter(|index| is_due(&self.tasks[*index])).collect()
    }

    /// The experiments and rounds that are due, in order.
    pub(super) fn rounds(&self) -> BTreeSet<(usize, u32)> {
        let rounds = |task: &'_ Task<'_>| -> Vec<(usize, u32)> {
            task.due.iter().map(|round| (task.experiment, *round)).collect()
        };
        self.tasks.iter().flat_map(rounds).collect()
    }

    /// Records a trial of a task. A command that has never worked is not tried again. For one that
    /// has worked, a single failure in hours (such as a crash of the guest's kernel) does not
    /// cancel the remaining rounds.
    pub(super) fn made(&mut self, index: usize, trial: &Trial) {
        self.learn(trial);
        let task = &mut self.tasks[index];
        task.works |= matches!(trial.outcome, Outcome::Values(_));
        match task.works {
            true => _ = task.due.remove(&trial.round),
            false => task.due.clear(),
        }
    }

    fn learn(&mut self, trial: &Trial) {
        self.took.entry(trial.command.clone()).or_default().push(trial.seconds);
    }

    /// The estimated time of a trial of a task.
    fn seconds(&self, task: &Task<'_>) -> Option<f64> {
        let known = |task: &Task<'_>| self.took.get(&task.command).map(|took| median(took));
        known(task).or_else(|| {
            let others = self.tasks.iter().filter(|other| other.experiment == task.experiment);
            let others: Vec<f64> = others.filter_map(known).collect();
            (!others.is_empty()).then(|| others.iter().sum::<f64>() / others.len() as f64)
        })
    }
}

impl Task<'_> {
    fn has_all_of(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Values(v) => self.metrics.iter().all(|m| v.contains_key(&m.key())),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::{TINY, lab, tiny};

    fn trial(kind: &str, round: u32, seconds: f64) -> Trial {
        let number = Ok(serde_json::Value::from(1.0));
        Trial {
            command: format!("echo '{{\"seconds\": {kind}}}' # 10"),
            round,
            seconds,
            outcome: Outcome::Values([("seconds".to_owned(), number)].into()),
        }
    }

    #[test]
    fn what_is_left_takes_as_long_as_what_was_made() {
        let other = TINY.replace("T1", "T2").replace("echo", "printf");
        let both = [tiny(), Experiment::parse("other", &other).unwrap()];
        let ahead = |past: &[Trial]| {
            let schedule = Schedule::new(&both, ScaleName::Smoke, None, past);
            assert_eq!(schedule.trials(), 12);
            schedule.ahead(NonZeroUsize::MIN)
        };
        assert_eq!(ahead(&[]), Ahead { trials: 12, seconds: 0.0, unknown: 12 });
        // Three trials of the slow cell, each as long as its two earlier ones, and two of the fast
        // cell.
        let slow = Trial { outcome: Outcome::Failed("why".to_owned()), ..trial("2.0", 0, 30.0) };
        let past = [trial("1.0", 0, 2.0), slow, trial("2.0", 7, 10.0)];
        assert_eq!(ahead(&past), Ahead { trials: 11, seconds: 4.0 + 60.0, unknown: 6 });
        // For the slow cell, only the time of the fast one is known.
        assert_eq!(ahead(&past[..1]), Ahead { trials: 11, seconds: 10.0, unknown: 6 });
    }

    #[test]
    fn what_may_share_the_machine_takes_a_part_of_its_time() {
        let past = |id: &str| {
            ["1.0", "2.0"].map(|kind| {
                let made = trial(kind, 0, 30.0);
                Trial { command: format!("{} {id}", made.command), ..made }
            })
        };
        let seconds = |experiment: Experiment, jobs, repetitions| {
            let past = past(&experiment.id);
            let all = [experiment];
            let schedule = Schedule::new(&all, ScaleName::Laptop, repetitions, &past);
            schedule.ahead(NonZeroUsize::new(jobs).unwrap()).seconds
        };
        assert_eq!(seconds(lab("L1", ""), 1, None), 120.0);
        assert_eq!(seconds(lab("L1", ""), 2, None), 60.0);
        assert_eq!(seconds(lab("L1", ""), 100, None), 30.0);
        assert_eq!(seconds(lab("L1", ""), 2, Some(1)), 0.0);
        let host = Experiment { machine: "host".to_owned(), ..lab("H", "") };
        assert_eq!(seconds(host, 2, None), 120.0);
    }

    #[test]
    fn one_failure_of_what_worked_costs_its_round() {
        let all = [tiny()];
        let left = |past: &[Trial]| {
            let mut schedule = Schedule::new(&all, ScaleName::Smoke, None, past);
            let failed = Trial { outcome: Outcome::Failed(String::new()), ..trial("1.0", 1, 1.0) };
            schedule.made(0, &failed);
            schedule.tasks[0].due.len()
        };
        assert_eq!((left(&[]), left(&[trial("1.0", 0, 1.0)])), (0, 1));
    }

    #[test]
    fn repetitions_may_be_others_than_the_scale_s() {
        let all = [tiny()];
        let left = |repetitions| {
            Schedule::new(&all, ScaleName::Smoke, repetitions, &[trial("1.0", 0, 1.0)])
                .ahead(NonZeroUsize::MIN)
                .trials
        };
        assert_eq!((left(Some(1)), left(None), left(Some(5))), (1, 5, 9));
    }
}
