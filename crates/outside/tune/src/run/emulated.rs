//! Runs trials on an emulated machine: each boots a guest, and its time is simulated.
//!
//! A run depends on nothing but its plan and its seed. So the runs of one block are made side by
//! side, which changes no result.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use numapilot_place::{Options, Plan, prepare, scratch_directory};
use numapilot_topology::Machine;
use serde::Deserialize;

use super::execute::{RunContext, execute, stdin};
use super::execution::Execution;
use super::{Judge, Program, RunError, end_of_output, io_error, tail};
use crate::evidence::{Failure, Order, Outcome, Phase, Remains, Trial};
use crate::shape::{Candidate, DEFAULT};

/// Least time limit that follows from the default's runs. It includes the boot.
const LEAST_TIMEOUT: Duration = Duration::from_secs(120);
/// The exit status of `numapilot run` for a plan that it cannot apply.
const NOT_APPLIED: Failure = Failure::Exit(125);
/// The region of a report that `numapilot run` begins where its program does.
const PROGRAM: &str = "program";

/// An emulated machine.
#[derive(Clone, Debug)]
pub struct Emulated {
    /// The program `numapilot-lab`.
    pub lab: PathBuf,
    /// The machine: a name of `numapilot lab list`, or a description file.
    pub machine: String,
    /// More options of `lab run`.
    pub options: Vec<OsString>,
    /// Guests that run side by side.
    pub jobs: NonZeroUsize,
    /// The directory for profiles. The guest sees its path, so it must be the same each time.
    pub directory: PathBuf,
}

/// The seed of a run, which perturbs what differs between repetitions on hardware. Runs of one
/// round have the same seed, and each round has another.
fn seed(order: Order, repeated: u64) -> u64 {
    let phase = match order.phase {
        Phase::WarmUp | Phase::Noise => 0,
        Phase::Screen => 1,
        Phase::Refine => 2,
        Phase::Race => 3,
        Phase::Final => 4,
    };
    1 + repeated + 1_000 * u64::from(order.block) + 1_000_000 * phase
}

/// The fields of `lab run --json` that are used.
#[derive(Deserialize)]
struct Figures {
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    name: String,
    simulated_seconds: f64,
}

/// A guest that has run.
struct Guest {
    execution: Execution,
    /// Simulated seconds of the program; the reason if there are none.
    simulated: Result<f64, NoSeconds>,
    /// Seconds on the host, divided by the guests that ran at the same time.
    seconds: f64,
}

/// Why a guest has no simulated seconds of the program.
enum NoSeconds {
    /// The program never began.
    NotBegun,
    /// The time limit ended the guest.
    TimedOut,
    /// The lab ended without figures. This is the end of its output.
    NoFigures(String),
}

/// A run that is expected.
#[derive(Clone)]
struct Expected {
    order: Order,
    seed: u64,
    plan: Plan,
}

impl Expected {
    fn key(&self) -> (Candidate, u64) {
        (self.order.candidate, self.seed)
    }
}

/// Runs guests, and keeps the results of those that were run ahead.
pub struct Guests {
    emulated: Emulated,
    /// The next runs, in order.
    expected: VecDeque<Expected>,
    ahead: BTreeMap<(Candidate, u64), Result<Guest, RunError>>,
}

impl Guests {
    pub fn new(emulated: Emulated) -> Self {
        Self { emulated, expected: VecDeque::new(), ahead: BTreeMap::new() }
    }

    /// Announces the next runs, after those in the evidence.
    pub fn expect(&mut self, orders: impl IntoIterator<Item = (Order, Plan)>, evidence: &[Trial]) {
        self.expected.clear();
        for (order, plan) in orders {
            let made = evidence.iter().filter(|trial| trial.order == order).count();
            let same = self.expected.iter().filter(|other| other.order == order).count();
            let seed = seed(order, (made + same) as u64);
            self.expected.push_back(Expected { order, seed, plan });
        }
    }

    /// The time limit of a run, by that which follows from the default's runs.
    pub fn timeout(&self, by_default: Duration) -> Duration {
        self.side_by_side(by_default).max(LEAST_TIMEOUT)
    }

    /// The time limit of a guest that runs beside others, by that of one alone.
    pub fn side_by_side(&self, alone: Duration) -> Duration {
        alone.saturating_mul(u32::try_from(self.emulated.jobs.get()).unwrap_or(u32::MAX))
    }

    /// Makes an expected run.
    pub fn run(
        &mut self,
        order: Order,
        host: &Machine,
        program: &Program,
        judge: &mut Judge,
        interrupted: &AtomicBool,
    ) -> Result<Trial, RunError> {
        // Plans that failed earlier in the same block are left out.
        while self.expected.front().is_some_and(|next| next.order != order) {
            self.expected.pop_front();
        }
        let Some(next) = self.expected.front() else {
            let why = io::Error::other("the run was not announced");
            return Err(io_error("cannot run a guest", why));
        };
        let key = next.key();
        if !self.ahead.contains_key(&key) {
            self.run_ahead(host, program, interrupted)?;
        }
        self.expected.pop_front();
        let guest = self.ahead.remove(&key).unwrap_or(Err(RunError::Interrupted))?;
        let text = &guest.execution.text;
        let failure = match guest.execution.failure() {
            Some(NOT_APPLIED) => Some(Failure::NotApplied(message(text))),
            failure => failure,
        };
        let outcome = match (failure, guest.simulated) {
            // A plan can end the guest, for example when a node's memory is used up. If the default
            // has no figures either, it is not the plan.
            (_, Err(NoSeconds::NoFigures(message))) if order.candidate == DEFAULT => {
                return Err(RunError::Lab { message });
            }
            (_, Err(NoSeconds::NoFigures(message))) => Outcome::Failed(Failure::NoFigure(format!(
                "the lab ended without figures: {message}"
            ))),
            (Some(failure), _) => Outcome::Failed(failure),
            (None, Ok(seconds)) => judge.outcome(order.candidate, text, seconds, 0),
            (None, Err(NoSeconds::NotBegun | NoSeconds::TimedOut)) => {
                Outcome::Failed(Failure::NoFigure("the lab reports no time of the program".into()))
            }
        };
        let output = match &outcome {
            Outcome::Value(_) | Outcome::CutShort(_) => String::new(),
            Outcome::Failed(_) => tail(text),
        };
        let remains = Remains { output, ..Remains::default() };
        Ok(Trial { remains, ..Trial::new(order, guest.seconds, outcome) })
    }

    /// Makes the next run, and as many after it as may run at the same time.
    fn run_ahead(
        &mut self,
        host: &Machine,
        program: &Program,
        interrupted: &AtomicBool,
    ) -> Result<(), RunError> {
        let next: Vec<&Expected> = self
            .expected
            .iter()
            .filter(|next| !self.ahead.contains_key(&next.key()))
            .take(self.emulated.jobs.get())
            .collect();
        for one in &next {
            let profile = self.profile(one.order.candidate);
            fs::write(&profile, one.plan.to_profile())
                .map_err(|e| io_error(&format!("cannot write {}", profile.display()), e))?;
        }
        let guest = |one: &Expected| self.guest(one, host, program, interrupted);
        let made: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> =
                next.iter().map(|one| (one.key(), scope.spawn(|| guest(one)))).collect();
            running.into_iter().map(|(key, thread)| (key, thread.join())).collect()
        });
        let share = made.len() as f64;
        for (key, guest) in made {
            let guest = guest.unwrap_or(Err(RunError::Interrupted));
            let shared = |guest: Guest| Guest { seconds: guest.seconds / share, ..guest };
            self.ahead.insert(key, guest.map(shared));
        }
        Ok(())
    }

    fn profile(&self, candidate: Candidate) -> PathBuf {
        self.emulated.directory.join(format!("plan-{}.toml", candidate.0))
    }

    fn guest(
        &self,
        one: &Expected,
        host: &Machine,
        program: &Program,
        interrupted: &AtomicBool,
    ) -> Result<Guest, RunError> {
        let directory = scratch_directory("tune")
            .map_err(|e| io_error("cannot make a temporary directory", e))?;
        let figures = directory.path().join("figures.json");
        let command = self.command(one, program, &figures);
        let options = Options { strict: false, new_group: true };
        let prepared = prepare(&Plan::default(), host, &command, &options)?;
        let context = RunContext {
            stdin: stdin(program.stdin.as_deref(), "--stdin")?,
            directory: None,
            timeout: program.timeout,
            interrupted,
        };
        let execution = execute(&prepared, context, |_| {})?;
        let seconds = execution.finished.wall.as_secs_f64();
        let simulated = match fs::read(&figures) {
            Ok(text) => simulated_seconds(&text)
                .map_err(|e| io_error("the lab's figures are damaged", e.into()))?
                .ok_or(NoSeconds::NotBegun),
            Err(_) if execution.finished.timed_out => Err(NoSeconds::TimedOut),
            Err(_) => Err(NoSeconds::NoFigures(end_of_output(&tail(&execution.text)))),
        };
        Ok(Guest { execution, simulated, seconds })
    }

    /// The command of a guest.
    fn command(&self, one: &Expected, program: &Program, figures: &Path) -> Vec<OsString> {
        let Emulated { lab, machine, options, .. } = &self.emulated;
        let mut command = vec![lab.clone().into_os_string()];
        command.extend(["lab", "run", "--machine", machine, "--json", "--output"].map(Into::into));
        command.push(figures.into());
        command.extend(["--seed".into(), one.seed.to_string().into()]);
        command.extend(options.iter().cloned());
        command.extend(["--", "numapilot", "run", "--strict", "--profile"].map(Into::into));
        command.push(self.profile(one.order.candidate).into_os_string());
        command.push("--".into());
        command.extend(program.command.iter().cloned());
        command
    }
}

/// The simulated seconds of the program in the figures of `lab run --json`.
fn simulated_seconds(text: &[u8]) -> serde_json::Result<Option<f64>> {
    let figures: Figures = serde_json::from_slice(text)?;
    let program = figures.regions.into_iter().find(|region| region.name == PROGRAM);
    Ok(program.map(|region| region.simulated_seconds))
}

/// The error message at the end of a program's output.
fn message(text: &str) -> String {
    let last = text.lines().rev().find_map(|line| line.strip_prefix("numapilot: error: "));
    last.unwrap_or("the plan cannot be applied in the guest").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(phase: Phase, block: u32, candidate: u32) -> Order {
        Order { phase, block, candidate: Candidate(candidate) }
    }

    #[test]
    fn plans_of_a_round_have_one_seed_and_rounds_have_different_ones() {
        assert_eq!(seed(order(Phase::Race, 2, 0), 0), seed(order(Phase::Race, 2, 7), 0));
        let seeds = [
            seed(order(Phase::Noise, 0, 0), 0),
            seed(order(Phase::Noise, 0, 0), 1),
            seed(order(Phase::Race, 0, 0), 0),
            seed(order(Phase::Race, 1, 0), 0),
            seed(order(Phase::Final, 0, 0), 0),
        ];
        let distinct: std::collections::BTreeSet<u64> = seeds.into_iter().collect();
        assert_eq!(distinct.len(), seeds.len());
    }

    #[test]
    fn a_repeated_run_has_another_seed() {
        let emulated = Emulated {
            lab: "lab".into(),
            machine: "cxl".into(),
            options: Vec::new(),
            jobs: NonZeroUsize::MIN,
            directory: "/tmp".into(),
        };
        let mut guests = Guests::new(emulated);
        let noise = order(Phase::Noise, 0, DEFAULT.0);
        let made = [Trial::new(noise, 1.0, Outcome::Value(1.0))];
        guests.expect([(noise, Plan::default()), (noise, Plan::default())], &made);
        let seeds: Vec<u64> = guests.expected.iter().map(|next| next.seed).collect();
        assert_eq!(seeds, [2, 3]);
    }

    #[test]
    fn the_time_is_the_programs() {
        let text = br#"{"regions": [{"name": "all", "simulated_seconds": 3.0, "x": 1},
            {"name": "program", "simulated_seconds": 2.5}]}"#;
        assert_eq!(simulated_seconds(text).unwrap(), Some(2.5));
        assert_eq!(simulated_seconds(br#"{"regions": []}"#).unwrap(), None);
        assert!(simulated_seconds(b"{").is_err());
    }

    #[test]
    fn the_reason_is_the_error_message() {
        let text = "x\nnumapilot: error: node 9 does not exist\n";
        assert_eq!(message(text), "node 9 does not exist");
        assert!(message("").contains("cannot be applied"));
    }
}
