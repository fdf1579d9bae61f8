//! Simulates a target: a number of threads that want to run in each tick.

mod traces;

pub use traces::{Trace, TraceError, read};

use serde::Serialize;

use crate::decide::{Controller, Limits, Load, Why};
use crate::net::{Net, Run, Transition, Verdict};

/// Which figures a simulated target shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// How many threads wait.
    Waiting,
    /// Whether any thread waits (PSI).
    Pressure,
    /// Only how busy the cores are.
    Busy,
}

/// One tick of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tick {
    /// Threads that wanted to run.
    pub demand: f64,
    /// Cores that the target had.
    pub cores: u32,
    /// Cores that it kept busy.
    pub busy: f64,
    /// The controller's verdict.
    pub verdict: Verdict,
    /// The controller's reason.
    pub why: Why,
    /// The transitions that fired.
    pub firings: Vec<Transition>,
}

/// Runs a controller over a load, beginning with `first` cores.
#[must_use]
pub fn simulate(
    controller: &mut Controller,
    demand: &[f64],
    limits: Limits,
    first: u32,
    sight: Sight,
) -> Vec<Tick> {
    let mut run = Run::new(Net::new(limits.minimum, limits.maximum), first);
    let mut ticks = Vec::with_capacity(demand.len());
    for &demand in demand {
        let cores = run.cores();
        let busy = demand.clamp(0.0, f64::from(cores));
        let waiting = demand - busy;
        let load = Load {
            busy: Some(busy),
            waiting: (sight == Sight::Waiting).then_some(waiting),
            pressure: (sight == Sight::Pressure).then_some(waiting.min(1.0)),
            traffic: None,
        };
        let decision = controller.decide(&load, cores, limits);
        run.tick(decision.verdict, decision.wanted);
        let firings = run.firings().to_vec();
        ticks.push(Tick {
            demand,
            cores,
            busy,
            verdict: decision.verdict,
            why: decision.why,
            firings,
        });
    }
    ticks
}
