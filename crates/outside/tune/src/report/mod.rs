//! Makes the result of a search from its evidence alone.

use std::collections::BTreeSet;

use numapilot_place::Plan;
use serde::Serialize;

pub use crate::decide::{Basis, Claim as Status};
use crate::decide::{
    Claim, Earlier, Figure, Finding, Findings, Held, MainEffect, Settings, Stop, failures, is_short,
};
use crate::evidence::{Goal, Outcome, Phase, Trial, Values};
use crate::shape::{Candidate, DEFAULT};
use crate::space::{Skipped, Space};
use crate::statistics::median;

/// The data for the user's tables, for scripts and for pictures.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The metric: `wall time`, or the pattern.
    pub metric: String,
    /// Which direction is better.
    pub goal: Goal,
    /// Standard deviation of the default against itself, as a share; absent with fewer
    /// than two runs.
    pub noise: Option<f64>,
    /// Runs of the default from which the noise was measured: its first ones.
    pub noise_runs: usize,
    /// Runs made, including the warm-up.
    pub runs: usize,
    /// Of these, runs that were cut short (`--progress`).
    pub cut_short: usize,
    /// Seconds of running.
    pub seconds: f64,
    /// Cells of the whole grid, and plans the user added.
    pub candidates: usize,
    /// Joint confidence of all intervals of the race.
    pub confidence: f64,
    /// Differences below this share do not matter.
    pub resolution: f64,
    /// Why it ended.
    pub stop: Stop,
    /// The default's figures.
    pub default: DefaultFigures,
    /// Plans that ran, the best first.
    pub plans: Vec<PlanFigures>,
    /// Main effects of levels.
    pub effects: Vec<Effect>,
    /// The winner; absent if no plan is shown to beat the default.
    pub best: Option<PlanFigures>,
    /// Without a winner, the plan that all runs suggest to be best. This is not a claim.
    pub expected: Option<PlanFigures>,
    /// What was not compared.
    pub skipped: Vec<Skipped>,
    /// Plans that never ran.
    pub never_ran: Vec<String>,
    /// Whether these plans never ran because the time was too short for all plans.
    pub is_short: bool,
    /// Programs that runs left running and that were ended.
    pub left_running: BTreeSet<String>,
    /// The values of which the figures are means, if a load has printed several.
    pub values: Option<ValuesFigures>,
    /// What was expected before the first run, and how far it has held; absent if nothing was.
    pub prior: Option<PriorFigures>,
}

/// What was expected before the first run of a search. It chooses runs, and no claim rests on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PriorFigures {
    /// The share of what an instrumented run let expect that the runs agree with, by the model;
    /// absent without such a run.
    pub advice: Option<f64>,
    /// Earlier searches.
    pub searches: Vec<EarlierFigures>,
}

/// An earlier search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EarlierFigures {
    /// The search, in words.
    pub search: String,
    /// By the model: 1 if the plans do what they did in that search, 0 if it has nothing in common
    /// with this one.
    pub weight: f64,
}

impl PriorFigures {
    fn of(settings: &Settings, held: &Held) -> Self {
        let searches = settings.prior.searches.iter().zip(&held.weights);
        let figures = |(search, &weight): (&Earlier, &f64)| EarlierFigures {
            search: search.name.clone(),
            weight,
        };
        Self { advice: held.right, searches: searches.map(figures).collect() }
    }
}

/// The values that loads printed in the runs of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValuesFigures {
    /// Fewest and most values of a run.
    pub found: [usize; 2],
    /// Fewest and most values that were dropped as warm-up.
    pub dropped: [usize; 2],
    /// Runs with several values.
    pub runs: usize,
    /// Of these, runs in which as many were dropped as may be.
    pub at_limit: usize,
}

impl ValuesFigures {
    fn of(evidence: &[Trial]) -> Option<Self> {
        let values = || evidence.iter().filter_map(|trial| trial.values);
        let range = |count: fn(Values) -> usize| {
            Some([values().map(count).min()?, values().map(count).max()?])
        };
        let is_at_limit =
            |values: &Values| values.dropped > 0 && values.dropped == values.found / 2;
        Some(Self {
            found: range(|values| values.found)?,
            dropped: range(|values| values.dropped)?,
            runs: values().count(),
            at_limit: values().filter(is_at_limit).count(),
        })
    }

    /// Whether the values of most runs still changed in the middle of the load. Noise alone brings
    /// single runs to the limit.
    #[must_use]
    pub fn are_unsteady(&self) -> bool {
        2 * self.at_limit > self.runs
    }
}

/// The default.
#[derive(Clone, Debug, Serialize)]
pub struct DefaultFigures {
    /// Median of the metric; absent before the first run.
    pub median: Option<f64>,
    /// Median wall time.
    pub median_seconds: Option<f64>,
    /// Runs, without warm-up.
    pub runs: usize,
}

/// A plan's figures.
#[derive(Clone, Debug, Serialize)]
pub struct PlanFigures {
    /// The plan in one line.
    pub plan: String,
    /// The metric divided by the default's; absent if nothing could be compared.
    pub ratio: Option<f64>,
    /// Interval of the ratio; absent if unknown.
    pub confidence: Option<[f64; 2]>,
    /// The source of the ratio; absent for the default.
    pub basis: Option<Basis>,
    /// Its status.
    pub status: Status,
    /// The reason of its last failure.
    pub reason: Option<String>,
    /// Runs.
    pub runs: usize,
    /// Of these, runs that failed.
    pub failed: usize,
    /// Of these, runs that were cut short (`--progress`).
    pub cut_short: usize,
    /// If any were: the least that the ratio would have been in the fastest of them, had the rest
    /// run as fast as in the best run. This is a bound and no measured figure.
    pub at_least: Option<f64>,
    /// The runs that failed.
    pub failures: Vec<FailedRun>,
    /// The plan as the fields of a profile.
    pub profile: Plan,
}

/// A run that failed.
#[derive(Clone, Debug, Serialize)]
pub struct FailedRun {
    /// Its number in the search, from 1.
    pub run: usize,
    /// Its purpose.
    pub phase: Phase,
    /// How it failed.
    pub reason: String,
    /// The last lines of its output.
    pub output: String,
    /// Processes that it left running and that were ended.
    pub ended: Vec<String>,
}

/// The main effect of a level: the metric with it divided by the metric with the factor's first
/// level, averaged over all combinations of the other factors.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// The factor.
    pub factor: &'static str,
    /// The level.
    pub level: String,
    /// The ratio.
    pub ratio: f64,
    /// Its 95 % interval, from the screening model.
    pub confidence: [f64; 2],
}

impl Report {
    /// Makes the report from the evidence so far.
    #[must_use]
    pub fn new(
        space: &Space,
        settings: &Settings,
        evidence: &[Trial],
        stop: Stop,
        metric: String,
    ) -> Self {
        let shape = space.shape();
        let findings = Findings::new(&shape, settings, evidence);
        let ran: BTreeSet<Candidate> = evidence.iter().map(|t| t.order.candidate).collect();
        let never_ran = shape.candidates().filter(|plan| !ran.contains(plan));
        let left_running = evidence.iter().flat_map(|trial| trial.remains.programs());
        let figures = |finding: &Finding| plan_figures(space, settings.goal, evidence, finding);
        Self {
            metric,
            goal: settings.goal,
            noise: findings.noise,
            noise_runs: failures::succeeded(evidence, Phase::Noise),
            runs: evidence.len(),
            cut_short: evidence.iter().filter(|t| t.bound(settings.goal).is_some()).count(),
            // Not `sum`: the empty sum of f64 is -0.
            seconds: evidence.iter().fold(0.0, |sum, trial| sum + trial.seconds),
            candidates: shape.candidates().count(),
            confidence: settings.confidence,
            resolution: settings.resolution,
            stop,
            default: default_figures(evidence),
            best: findings.best().map(figures),
            expected: findings.expected().map(figures),
            plans: findings.plans.iter().map(figures).collect(),
            effects: findings.effects.iter().map(|e| effect(space, settings.goal, e)).collect(),
            skipped: space.skipped.clone(),
            never_ran: never_ran.map(|plan| space.plan(plan).to_string()).collect(),
            is_short: is_short(&shape, settings, evidence),
            left_running: left_running.map(str::to_owned).collect(),
            values: ValuesFigures::of(evidence),
            prior: findings.held.as_ref().map(|held| PriorFigures::of(settings, held)),
        }
    }
}

fn plan_figures(space: &Space, goal: Goal, evidence: &[Trial], finding: &Finding) -> PlanFigures {
    let profile = space.plan(finding.plan);
    let failed_run = |(run, trial): (usize, &Trial)| {
        let failure = trial.failure().filter(|_| trial.order.candidate == finding.plan)?;
        Some(FailedRun {
            run,
            phase: trial.order.phase,
            reason: failure.to_string(),
            output: trial.remains.output.clone(),
            ended: trial.remains.ended.clone(),
        })
    };
    let failures: Vec<FailedRun> = (1..).zip(evidence).filter_map(failed_run).collect();
    let is_default = finding.claim == Claim::Default;
    PlanFigures {
        plan: profile.to_string(),
        ratio: finding.figure.map(|f| goal.ratio(f.centre)).or(is_default.then_some(1.0)),
        confidence: finding
            .figure
            .filter(Figure::is_known)
            .map(|f| interval(goal, f.low, f.high))
            .or(is_default.then_some([1.0, 1.0])),
        basis: finding.figure.map(|figure| figure.basis),
        status: finding.claim,
        // Runs of the warm-up are not counted either.
        reason: failures
            .iter()
            .rfind(|failed| failed.phase != Phase::WarmUp)
            .map(|failed| failed.reason.clone()),
        runs: finding.runs,
        failed: finding.failed,
        cut_short: finding.cut,
        at_least: at_least(goal, evidence, finding.plan),
        failures,
        profile,
    }
}

/// The least bound of a plan's runs that were cut short, divided by the default's median.
fn at_least(goal: Goal, evidence: &[Trial], plan: Candidate) -> Option<f64> {
    let of_plan = evidence.iter().filter(|t| t.order.candidate == plan);
    let least = of_plan.filter_map(|t| t.bound(goal)).min_by(f64::total_cmp)?;
    Some(goal.ratio(least - goal.cost(default_figures(evidence).median?)))
}

fn effect(space: &Space, goal: Goal, effect: &MainEffect) -> Effect {
    let factor = &space.factors[effect.factor];
    Effect {
        factor: factor.name.name(),
        level: factor.levels[effect.level].name(),
        ratio: goal.ratio(effect.centre),
        confidence: interval(goal, effect.low, effect.high),
    }
}

/// Ends of an interval of costs as ratios, the lower first.
fn interval(goal: Goal, low: f64, high: f64) -> [f64; 2] {
    let (a, b) = (goal.ratio(low), goal.ratio(high));
    [a.min(b), a.max(b)]
}

fn default_figures(evidence: &[Trial]) -> DefaultFigures {
    let of_default = || {
        evidence.iter().filter(|t| t.order.candidate == DEFAULT && t.order.phase != Phase::WarmUp)
    };
    let values: Vec<f64> = of_default()
        .filter_map(|t| match t.outcome {
            Outcome::Value(value) => Some(value),
            Outcome::Failed(_) | Outcome::CutShort(_) => None,
        })
        .collect();
    let seconds: Vec<f64> = of_default().map(|t| t.seconds).collect();
    let known = |values: &[f64]| (!values.is_empty()).then(|| median(values));
    DefaultFigures { median: known(&values), median_seconds: known(&seconds), runs: values.len() }
}

#[cfg(test)]
mod tests;
