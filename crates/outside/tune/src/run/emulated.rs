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

use super::execute::{RunContext, execute, stdin};
use super::guest::{Guest, GuestRun, NoSeconds};
use super::service::Service;
use super::{Judge, Program, RunError, end_of_output, io_error, server, tail};
use crate::evidence::{Failure, Order, Outcome, Phase, Remains, Trial};
use crate::shape::{Candidate, DEFAULT};

/// Least time limit that follows from the default's runs. It includes the boot.
const LEAST_TIMEOUT: Duration = Duration::from_secs(120);
/// An emulated machine.
#[derive(Clone, Debug)]
pub struct Emulated {
    /// The program `numapilot-lab`.
    pub lab: PathBuf,
    /// The machine: a name of `numapilot lab list`, or a description file.
    pub machine: String,
    /// More options of `lab run`.
    pub options: Vec<OsString>,
    /// Seconds on the guest's clocks in a simulated second.
    pub clock_rate: f64,
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
    /// Whether any run of the search has succeeded.
    pub has_worked: bool,
    /// The next runs, in order.
    expected: VecDeque<Expected>,
    ahead: BTreeMap<(Candidate, u64), Result<Guest, RunError>>,
}

impl Guests {
    pub fn new(emulated: Emulated) -> Self {
        Self { emulated, has_worked: false, expected: VecDeque::new(), ahead: BTreeMap::new() }
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
        let seconds = guest.seconds;
        let rate = self.emulated.clock_rate;
        let run = match &program.service {
            Some(_) => guest.run_of_server(rate),
            None => guest.run_of_program(),
        };
        let GuestRun { failure, text, explanation, never_started, remains, simulated } = run;
        let has_figures = !matches!(simulated, Err(NoSeconds::NoFigures(_)));
        if order.candidate == DEFAULT && !self.has_worked && never_started && has_figures {
            match &failure {
                Some(failure @ Failure::Server(_)) => {
                    let (failure, tail) = (failure.clone(), tail(&explanation));
                    // The guest runs as root.
                    let remedy = server::remedy(&tail, true);
                    return Err(RunError::Server { failure, remedy, tail: end_of_output(&tail) });
                }
                Some(Failure::NotApplied(message)) => {
                    return Err(RunError::Guest { message: message.clone() });
                }
                _ => {}
            }
        }
        let (outcome, values) = match (failure, simulated) {
            // A plan can end the guest, for example when a node's memory is used up. If the default
            // has no figures either, it is not the plan.
            (_, Err(NoSeconds::NoFigures(message))) if order.candidate == DEFAULT => {
                return Err(RunError::Lab { message });
            }
            (_, Err(NoSeconds::NoFigures(message))) => {
                let text = format!("the lab ended without figures: {message}");
                (Outcome::Failed(Failure::NoFigure(text)), None)
            }
            (Some(failure), _) => (Outcome::Failed(failure), None),
            (None, Ok(simulated)) => judge.judge(order.candidate, &text, simulated, 0),
            (None, Err(NoSeconds::NotBegun | NoSeconds::TimedOut)) => {
                let text = "the lab reports no time of the program".to_owned();
                (Outcome::Failed(Failure::NoFigure(text)), None)
            }
        };
        let output = match &outcome {
            Outcome::Value(_) | Outcome::CutShort(_) => String::new(),
            Outcome::Failed(_) => tail(&explanation),
        };
        let remains = Remains { output, ..remains };
        Ok(Trial { values, remains, ..Trial::new(order, seconds, outcome) })
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
            self.ahead.insert(key, guest.map(|guest| guest.beside(share)));
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
        Guest::new(execution, &figures)
    }

    /// The command of a guest.
    fn command(&self, one: &Expected, program: &Program, figures: &Path) -> Vec<OsString> {
        let Emulated { lab, machine, options, .. } = &self.emulated;
        let mut command = vec![lab.clone().into_os_string()];
        command.extend(["lab", "run", "--machine", machine, "--json", "--output"].map(Into::into));
        command.push(figures.into());
        command.extend(["--seed".into(), one.seed.to_string().into()]);
        command.extend(options.iter().cloned());
        let profile = self.profile(one.order.candidate).into_os_string();
        command.extend(["--".into(), "numapilot".into()]);
        match &program.service {
            None => command.extend(["run".into(), "--strict".into(), "--profile".into(), profile]),
            Some(service) => {
                command.extend(["tune".into(), "__serve".into(), "--profile".into(), profile]);
                command.extend(options_of(service, self.emulated.clock_rate));
            }
        }
        command.push("--".into());
        command.extend(program.command.iter().cloned());
        command
    }
}

/// The options of `tune __serve`, whose times are those of the guest's clock.
fn options_of(service: &Service, clock_rate: f64) -> Vec<OsString> {
    // A guest boots for every run, so a server cannot outlive it.
    let Service { ready, ready_timeout, stop_timeout, load, cpus, restart: _ } = service;
    let time = |limit: &Duration| format!("{}s", limit.as_secs_f64() * clock_rate);
    let mut options = vec![
        format!("--ready={ready}"),
        format!("--load={load}"),
        format!("--ready-timeout={}", time(ready_timeout)),
        format!("--stop-timeout={}", time(stop_timeout)),
    ];
    if let Some(cpus) = cpus {
        options.push(format!("--load-cpus={}", cpus.load));
    }
    options.into_iter().map(OsString::from).collect()
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
            clock_rate: 1.0,
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
}
