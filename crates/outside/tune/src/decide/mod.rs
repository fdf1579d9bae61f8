//! Decides what to run next: a pure function of the space, the settings and the evidence.
//!
//! ```text
//!  warm-up -> noise -> screening -> refinement -> race ---------> final -> stop
//!             default  balanced     what the      rounds, losers  leader and
//!             x 5      design       model likes   dropped         default only
//!                      '------ large spaces only -----'
//! ```
//!
//! Searches with few runs have phases of their own (`economy`).
//!
//! The evidence is the only state: a search that was killed continues when this is called again.
//! The clock enters as the seconds that the runs in the evidence took.

mod budget;
mod contenders;
pub mod design;
mod economy;
pub mod failures;
mod findings;
pub mod history;
pub mod model;
pub mod prior;
mod propose;
pub mod race;
mod rounds;

use serde::{Deserialize, Serialize};

use crate::evidence::{Goal, Order, Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};
use budget::{BLOCK, Shares};
pub use budget::{Outlook, is_economical, is_selective, is_short, outlook, too_few_runs};
pub use findings::{Basis, Claim, Figure, Finding, Findings, Held, MainEffect};
pub use prior::{Earlier, Expectation, Prior};
pub use propose::surfaces;
pub use rounds::Verdict;

/// The user's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Direction of the metric.
    pub goal: Goal,
    /// Differences below this share do not matter (0.02 = 2 %).
    pub resolution: f64,
    /// Joint confidence of all intervals of a race.
    pub confidence: f64,
    /// Half the width of the winner's interval at which it is narrow enough, as a share of the
    /// ratio.
    pub precision: f64,
    /// Runs of the default whose figures are not used.
    pub warm_up: usize,
    /// Runs of the default against itself.
    pub noise_runs: usize,
    /// Share of a plan's runs that may fail. With 0, a plan is out at its first failure, and the
    /// search ends at the default's first.
    pub failure_tolerance: f64,
    /// Most runs of all phases together.
    pub max_runs: usize,
    /// Most seconds of running.
    pub max_seconds: Option<f64>,
    /// Seed of all random choices.
    pub seed: u64,
    /// What is expected before any run.
    #[serde(default)]
    pub prior: Prior,
}

impl Settings {
    /// The usual settings, with this many runs and no warm-up.
    #[must_use]
    pub fn simple(goal: Goal, max_runs: usize) -> Self {
        Self {
            goal,
            resolution: 0.02,
            confidence: 0.95,
            precision: 0.05,
            warm_up: 0,
            noise_runs: 5,
            failure_tolerance: 0.05,
            max_runs,
            max_seconds: None,
            seed: 1,
            prior: Prior::default(),
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Make these runs in this order, then decide again.
    Run(Vec<Order>),
    /// End the search.
    Stop(Stop),
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The comparison of the best plan with the default is decided, and all others are out.
    Decided,
    /// The plans left differ by less than the resolution.
    Equivalent,
    /// `max_runs` are used up.
    MaxRuns,
    /// `max_seconds` are used up.
    MaxTime,
    /// `max_seconds` is too short to compare one plan with the default.
    TooLittleTime,
    /// There is nothing to compare the default with.
    NothingToCompare,
    /// The user ended it.
    Interrupted,
}

/// What to run next.
#[must_use]
pub fn decide(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Decision {
    let made = |phase: Phase| evidence.iter().filter(|t| t.order.phase == phase).count();
    if budget::too_few_runs(settings, evidence).is_some() {
        return Decision::Stop(Stop::TooLittleTime);
    }
    if made(Phase::Race) == 0 {
        if made(Phase::WarmUp) < settings.warm_up && made(Phase::Noise) == 0 {
            let order = Order { phase: Phase::WarmUp, block: 0, candidate: DEFAULT };
            return Decision::Run(vec![order; settings.warm_up - made(Phase::WarmUp)]);
        }
        let measured = failures::succeeded(evidence, Phase::Noise);
        if measured < settings.noise_runs {
            let order = Order { phase: Phase::Noise, block: 0, candidate: DEFAULT };
            let left = settings.noise_runs - measured;
            // After each run it may turn out that the time is too short.
            let at_once = if settings.max_seconds.is_some() { 1 } else { left };
            return Decision::Run(vec![order; at_once]);
        }
        if shape.candidates().count() <= 1 {
            return Decision::Stop(Stop::NothingToCompare);
        }
    }
    let shares = Shares::new(shape, settings, evidence);
    if shares.left(evidence) == 0 {
        return Decision::Stop(shares.exhausted);
    }
    if made(Phase::Race) == 0 && is_economical(shape, settings) {
        return economy::next_decision(shape, settings, evidence, &shares);
    }
    if made(Phase::Race) == 0 && budget::is_screened(shape, settings, evidence) {
        let next = screening_block(shape, settings, evidence, &shares)
            .or_else(|| refinement_block(shape, settings, evidence, &shares));
        if let Some(mut orders) = next {
            orders.truncate(shares.left(evidence));
            return Decision::Run(orders);
        }
    }
    rounds::next_decision(shape, settings, evidence, &shares)
}

/// The rest of the first unfinished screening block; empty once refinement has begun.
fn screening_block(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
) -> Option<Vec<Order>> {
    if evidence.iter().any(|t| t.order.phase == Phase::Refine) {
        return None;
    }
    let out = failures::failed_plans(settings, evidence);
    let design = design::screening(shape, settings.seed, shares.screen / BLOCK, BLOCK);
    design.into_iter().zip(0..).find_map(|(cells, block)| {
        let mut made: Vec<Candidate> = evidence
            .iter()
            .filter(|t| t.order.phase == Phase::Screen && t.order.block == block)
            // A failed run is repeated, unless the plan is out.
            .filter(|t| t.failure().is_none())
            .map(|t| t.order.candidate)
            .collect();
        let orders: Vec<Order> = cells
            .into_iter()
            .filter(|cell| match made.iter().position(|m| m == cell) {
                Some(i) => {
                    made.swap_remove(i);
                    false
                }
                None => !out.contains(cell) && !shape.is_excluded(*cell),
            })
            .map(|candidate| Order { phase: Phase::Screen, block, candidate })
            .collect();
        (!orders.is_empty()).then_some(orders)
    })
}

/// The next block of plans that the screening model finds promising.
fn refinement_block(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
) -> Option<Vec<Order>> {
    let refined = evidence.iter().filter(|t| t.order.phase == Phase::Refine);
    let block = refined.map(|t| t.order.block + 1).max().unwrap_or(0);
    let mut plans = failures::unconfirmed(settings, evidence);
    if plans.is_empty() {
        plans = propose::promising(shape, settings, evidence, shares);
    }
    let orders: Vec<Order> = plans
        .into_iter()
        .map(|candidate| Order { phase: Phase::Refine, block, candidate })
        .collect();
    (!orders.is_empty()).then_some(orders)
}
