//! Runs every test under every allocator, round by round.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use numapilot_place::effect::{Effect, Observer, Seen};
use numapilot_place::{Options, PlaceError, Plan, Running, prepare};
use numapilot_topology::Machine;
use numapilot_tune::evidence::Failure;
use numapilot_tune::run::{Execution, RunContext, RunError, execute, last_number, stdin};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::candidates::Candidate;
use crate::files::Ready;

/// The tests, the allocators and the number of rounds.
#[derive(Debug)]
pub struct BenchmarkRun<'a> {
    /// The machine that plans are resolved against.
    pub machine: &'a Machine,
    /// The tests.
    pub tests: &'a [Ready],
    /// The allocators.
    pub candidates: &'a [Candidate],
    /// Runs of each test under each allocator.
    pub rounds: u32,
    /// Time limit of a run.
    pub timeout: Duration,
    /// Working directory of the programs.
    pub directory: &'a Path,
    /// Seed of the order within a round.
    pub seed: u64,
    /// Ends the run when it becomes true.
    pub interrupted: &'a AtomicBool,
}

/// One run: indices into tests and candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The round, counted from 0.
    pub round: u32,
    /// Index of the test.
    pub test: usize,
    /// Index of the allocator.
    pub candidate: usize,
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What was run.
    pub order: Order,
    /// The figures, or why there are none.
    pub outcome: Result<Figures, Failure>,
}

/// The resources that a run used. Times are per unit of work if the test defines a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// CPU time of the program, user and system, in seconds.
    pub cpu_seconds: f64,
    /// The part of the CPU time spent in the kernel, in seconds.
    pub system_seconds: f64,
    /// Wall time, in seconds.
    pub wall_seconds: f64,
    /// Peak RSS.
    pub peak_rss_bytes: u64,
    /// Resident memory divided by requested memory, if the program prints it.
    pub rss_per_requested: Option<f64>,
    /// Page faults, per unit of work.
    pub page_faults: f64,
    /// Context switches, per unit of work.
    pub context_switches: f64,
    /// Whether the allocator was seen in the running program; `false` when the program ended before
    /// it could be examined.
    pub is_verified: bool,
}

/// Receives progress.
pub trait Watcher {
    /// Called before a run; `done` of about `total` runs have ended.
    fn before(&mut self, order: Order, done: usize, total: usize);
    /// Called after a run.
    fn after(&mut self, run: &Run);
}

/// All runs, and whether the user interrupted them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// The runs in the order in which they ended.
    pub runs: Vec<Run>,
    /// Whether the user interrupted the runs.
    pub is_interrupted: bool,
}

impl BenchmarkRun<'_> {
    /// Makes all runs. A test that fails under an allocator does not run under it again.
    ///
    /// # Errors
    /// [`RunError`] when nothing can run here; a failing program is not an error.
    pub fn run(&self, watcher: &mut impl Watcher) -> Result<Runs, RunError> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut made = Runs::default();
        let mut out: Vec<(usize, usize)> = Vec::new();
        let mut outputs: Vec<Option<String>> = vec![None; self.tests.len()];
        for round in 0..self.rounds {
            for (test, output) in outputs.iter_mut().enumerate() {
                let mut turn: Vec<usize> = (0..self.candidates.len()).collect();
                turn.shuffle(&mut rng);
                turn.retain(|&candidate| !out.contains(&(test, candidate)));
                for candidate in turn {
                    let order = Order { round, test, candidate };
                    watcher.before(order, made.runs.len(), self.total(round, &out));
                    let outcome = match self.one(order, output) {
                        Err(RunError::Interrupted) => {
                            made.is_interrupted = true;
                            return Ok(made);
                        }
                        outcome => outcome?,
                    };
                    if outcome.is_err() {
                        out.push((test, candidate));
                    }
                    let run = Run { order, outcome };
                    watcher.after(&run);
                    made.runs.push(run);
                }
            }
        }
        Ok(made)
    }

    /// The number of runs, given the failures up to this round.
    fn total(&self, round: u32, out: &[(usize, usize)]) -> usize {
        let all = self.rounds as usize * self.tests.len() * self.candidates.len();
        all - out.len() * (self.rounds - 1 - round) as usize
    }

    /// Makes one run. `output` is what the test printed in the first run that succeeded.
    fn one(
        &self,
        order: Order,
        output: &mut Option<String>,
    ) -> Result<Result<Figures, Failure>, RunError> {
        let test = &self.tests[order.test];
        let plan =
            Plan { allocator: self.candidates[order.candidate].choice.clone(), ..Plan::default() };
        // The plan is strict, because a run without the allocator would mislead. The program gets
        // its own process group, so the time limit ends all of its processes.
        let options = Options { strict: true, new_group: true };
        let prepared = match prepare(&plan, self.machine, &test.command, &options) {
            Ok(prepared) => prepared,
            Err(error) => return not_applied(error),
        };
        let context = RunContext {
            stdin: stdin(test.stdin.as_deref(), "input")?,
            directory: Some(self.directory),
            timeout: Some(self.timeout),
            interrupted: self.interrupted,
        };
        let mut observer = None;
        let expected = prepared.expected();
        let watch = |running: &Running| {
            // If the thread cannot be started, the allocator counts as not seen.
            observer = Observer::start(expected, running, |_| {}).ok();
        };
        let execution = match execute(&prepared, context, watch) {
            Ok(execution) => execution,
            Err(RunError::Start(error)) => return not_applied(error),
            Err(error) => return Err(error),
        };
        let seen = observer.map(Observer::finish);
        let figures = self.figures(test, &execution, seen.as_deref());
        if figures.is_ok() && test.is_deterministic {
            let expected = output.get_or_insert_with(|| execution.text.clone());
            if *expected != execution.text {
                return Ok(Err(Failure::WrongAnswer {
                    expected: end(expected),
                    got: end(&execution.text),
                }));
            }
        }
        Ok(figures)
    }

    fn figures(
        &self,
        test: &Ready,
        execution: &Execution,
        seen: Option<&[Seen]>,
    ) -> Result<Figures, Failure> {
        if let Some(failure) = execution.failure() {
            return Err(failure);
        }
        if let Some(note) = seen.into_iter().flatten().find_map(Seen::note) {
            return Err(Failure::NotApplied(note.to_string()));
        }
        let work = match &test.work {
            None => 1.0,
            Some(work) => last_number(work, &execution.text, None)
                .map_err(|error| Failure::NoFigure(error.to_string()))?,
        };
        let memory = test.memory.as_ref();
        let finished = &execution.finished;
        let usage = &finished.usage;
        let switches = usage.voluntary_switches + usage.involuntary_switches;
        // The counts are far below 2^52.
        let per_work = |count: u64| count as f64 / work;
        Ok(Figures {
            cpu_seconds: (usage.user + usage.system).as_secs_f64() / work,
            system_seconds: usage.system.as_secs_f64() / work,
            wall_seconds: finished.wall.as_secs_f64() / work,
            peak_rss_bytes: execution.peak_rss_bytes,
            // A program that requests too little memory for a ratio prints no number.
            rss_per_requested: memory.and_then(|m| last_number(m, &execution.text, None).ok()),
            page_faults: per_work(usage.minor_faults + usage.major_faults),
            context_switches: per_work(switches),
            is_verified: seen.is_some_and(|seen| seen.iter().all(is_in_effect)),
        })
    }
}

/// The end of an output, for a message.
fn end(text: &str) -> String {
    const MOST: usize = 100;
    text.chars().skip(text.chars().count().saturating_sub(MOST)).collect()
}

fn is_in_effect(seen: &Seen) -> bool {
    matches!(seen.effect, Effect::InEffect { .. })
}

/// An allocator that cannot be applied to this program is listed; the other runs continue.
fn not_applied<T>(error: PlaceError) -> Result<Result<T, Failure>, RunError> {
    Ok(Err(Failure::NotApplied(error.to_string())))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::num::NonZeroUsize;

    use numapilot_place::AllocatorChoice;
    use regex::Regex;

    use super::*;

    struct Silent;

    impl Watcher for Silent {
        fn before(&mut self, _: Order, done: usize, total: usize) {
            assert!(done < total, "{done} of {total}");
        }
        fn after(&mut self, _: &Run) {}
    }

    fn shell(name: &str, script: &str, work: Option<&str>) -> Ready {
        Ready {
            name: name.to_owned(),
            command: ["sh", "-c", script].map(OsString::from).to_vec(),
            stdin: None,
            work: work.map(|text| Regex::new(text).unwrap()),
            memory: Some(Regex::new(r"RSS (\S+)").unwrap()),
            about: String::new(),
            threads: NonZeroUsize::MIN,
            is_deterministic: false,
        }
    }

    fn candidate(name: &str, choice: AllocatorChoice) -> Candidate {
        Candidate { name: name.to_owned(), choice, path: None, version: None }
    }

    fn run(tests: &[Ready], interrupted: bool) -> Runs {
        let candidates = [
            candidate("one", AllocatorChoice::Inherit),
            candidate("two", AllocatorChoice::Inherit),
            candidate("gone", AllocatorChoice::Path("/nonexistent.so".to_owned())),
        ];
        let benchmark = BenchmarkRun {
            machine: &Machine::uniform(1, 1),
            tests,
            candidates: &candidates,
            rounds: 3,
            timeout: Duration::from_secs(1),
            directory: Path::new("/"),
            seed: 1,
            interrupted: &AtomicBool::new(interrupted),
        };
        benchmark.run(&mut Silent).unwrap()
    }

    #[test]
    fn every_round_has_every_pair_once() {
        let made = run(&[shell("a", "exit 0", None), shell("b", "exit 0", None)], false);
        assert!(!made.is_interrupted);
        for round in 0..3 {
            for test in 0..2 {
                let of = |c| {
                    let order = Order { round, test, candidate: c };
                    made.runs.iter().filter(|run| run.order == order).count()
                };
                // The missing allocator fails once and is then left out.
                assert_eq!([of(0), of(1), of(2)], [1, 1, usize::from(round == 0)]);
            }
        }
        let failures = made.runs.iter().filter_map(|run| run.outcome.as_ref().err());
        for failure in failures {
            assert!(matches!(failure, Failure::NotApplied(text) if text.contains("/nonexistent")));
        }
    }

    #[test]
    fn what_fails_is_listed_and_stops_nothing() {
        let tests = [
            shell("dies", "kill -SEGV $$", None),
            shell("hangs", "sleep 60", None),
            shell("silent", "echo none", Some(r"(\d+) ops")),
            shell("works", "echo 4 ops; echo RSS 1.5", Some(r"(\d+) ops")),
        ];
        let made = run(&tests, false);
        let of_one = |test: usize| {
            let mut runs = made.runs.iter();
            runs.find(|run| run.order.test == test && run.order.candidate == 0).unwrap()
        };
        assert_eq!(of_one(0).outcome, Err(Failure::Signal(11)));
        assert_eq!(of_one(1).outcome, Err(Failure::Timeout));
        assert!(matches!(&of_one(2).outcome, Err(Failure::NoFigure(_))));
        let figures = of_one(3).outcome.clone().unwrap();
        assert!(figures.peak_rss_bytes > 100 << 10, "{figures:?}");
        assert!(figures.wall_seconds > 0.0 && figures.page_faults > 0.0);
        assert_eq!(figures.rss_per_requested, Some(1.5));
    }

    #[test]
    fn another_output_is_a_failure() {
        let test = shell("changes", "echo $$", None);
        let test = Ready { is_deterministic: true, ..test };
        let made = run(&[test, shell("free", "echo $$", None)], false);
        let wrong = |run: &&Run| matches!(run.outcome, Err(Failure::WrongAnswer { .. }));
        let wrong: Vec<&Run> = made.runs.iter().filter(wrong).collect();
        // The first run says what is expected. The second allocator fails, then the first one.
        assert_eq!(wrong.iter().map(|run| run.order.test).collect::<Vec<_>>(), [0, 0]);
    }

    #[test]
    fn an_interruption_keeps_what_was_made() {
        let made = run(&[shell("a", "sleep 60", None)], true);
        assert!(made.is_interrupted);
        // Only the missing allocator has an outcome without a run.
        assert!(made.runs.iter().all(|run| run.order.candidate == 2));
    }
}
