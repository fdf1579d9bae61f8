//! The result of a search, from its evidence alone.

use std::collections::BTreeSet;

use numapilot_place::Plan;
use serde::Serialize;

use crate::decide::model::Surface;
use crate::decide::race::{Difference, Race};
use crate::decide::{self, Settings, Stop, Verdict, verdict_by};
use crate::evidence::{Failure, Goal, Outcome, Phase, Trial};
use crate::shape::{Candidate, DEFAULT};
use crate::space::{LeftOut, Space};
use crate::statistics::{deviation, median};

/// Draws from the screening model for its intervals.
const DRAWS: usize = 400;

/// Everything a user, a script or a picture needs to know.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What is compared: `wall time`, or the pattern.
    pub metric: String,
    /// Which direction is better.
    pub goal: Goal,
    /// Standard deviation of the default against itself, as a share; absent with fewer
    /// than two runs.
    pub noise: Option<f64>,
    /// Runs made, warm-up included.
    pub runs: usize,
    /// Seconds of running.
    pub seconds: f64,
    /// Cells of the whole grid, and plans the user added.
    pub candidates: usize,
    /// Confidence of all intervals of the race together.
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
    /// The winner; absent when nothing is shown to beat the default.
    pub best: Option<PlanFigures>,
    /// Without a winner: the plan that is expected to be best, from all runs. A claim it is
    /// not.
    pub expected: Option<PlanFigures>,
    /// What was not compared.
    pub left_out: Vec<LeftOut>,
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

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// What all others are compared with.
    Default,
    /// Better than the default, and no other is known to be better.
    Best,
    /// The best to expect from all runs, not shown to beat the default.
    Expected,
    /// In the race to its end.
    Left,
    /// Known to be worse than another.
    Dropped,
    /// Measured by the screening only; the ratio is the model's.
    Screened,
    /// Cannot be used.
    Failed,
}

impl Status {
    /// Its name in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Best => "best",
            Self::Expected => "expected",
            Self::Left => "left",
            Self::Dropped => "dropped",
            Self::Screened => "screened",
            Self::Failed => "failed",
        }
    }
}

/// A plan's figures.
#[derive(Clone, Debug, Serialize)]
pub struct PlanFigures {
    /// One line.
    pub plan: String,
    /// The metric over the default's; absent where nothing could be compared.
    pub ratio: Option<f64>,
    /// Interval of the ratio.
    pub confidence: Option<[f64; 2]>,
    /// What became of it.
    pub status: Status,
    /// Why it failed.
    pub reason: Option<String>,
    /// Runs.
    pub runs: usize,
    /// The same as a profile's fields.
    pub profile: Plan,
}

/// The main effect of a level: the metric with it over the metric with the factor's first
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
    /// The report of what is known so far.
    #[must_use]
    pub fn new(
        space: &Space,
        settings: &Settings,
        evidence: &[Trial],
        stop: Stop,
        metric: String,
    ) -> Self {
        let noise: Vec<f64> = evidence
            .iter()
            .filter(|t| t.order.phase == Phase::Noise)
            .filter_map(|t| t.cost(settings.goal))
            .collect();
        let shape = space.shape();
        let draws = decide::surfaces(&shape, settings, evidence, DRAWS);
        let verdict = verdict_by(&shape, settings, evidence, || &draws);
        let teller = Teller { space, settings, evidence, draws: &draws, verdict };
        let plans = teller.plans();
        let first = |status| plans.iter().find(|plan| plan.status == status).cloned();
        let (best, expected) = (first(Status::Best), first(Status::Expected));
        Self {
            metric,
            goal: settings.goal,
            noise: (noise.len() > 1).then(|| deviation(&noise)),
            runs: evidence.len(),
            // An empty sum of f64 is -0.
            seconds: evidence.iter().fold(0.0, |sum, trial| sum + trial.seconds),
            candidates: shape.candidates().count(),
            confidence: settings.confidence,
            resolution: settings.resolution,
            stop,
            default: default_figures(evidence),
            best,
            expected,
            plans,
            effects: teller.effects(),
            left_out: space.left_out.clone(),
        }
    }
}

fn default_figures(evidence: &[Trial]) -> DefaultFigures {
    let of_default = || {
        evidence.iter().filter(|t| t.order.candidate == DEFAULT && t.order.phase != Phase::WarmUp)
    };
    let values: Vec<f64> = of_default()
        .filter_map(|t| match t.outcome {
            Outcome::Value(value) => Some(value),
            Outcome::Failed(_) => None,
        })
        .collect();
    let seconds: Vec<f64> = of_default().map(|t| t.seconds).collect();
    let known = |values: &[f64]| (!values.is_empty()).then(|| median(values));
    DefaultFigures { median: known(&values), median_seconds: known(&seconds), runs: values.len() }
}

/// Makes the tables.
struct Teller<'a> {
    space: &'a Space,
    settings: &'a Settings,
    evidence: &'a [Trial],
    /// What the screening model holds possible.
    draws: &'a [Surface],
    verdict: Verdict,
}

impl Teller<'_> {
    fn plans(&self) -> Vec<PlanFigures> {
        let race = Race::new(self.evidence, Phase::Race, self.settings);
        let left: BTreeSet<Candidate> = race.standing().into_iter().collect();
        let ran: BTreeSet<Candidate> = self.evidence.iter().map(|t| t.order.candidate).collect();
        let mut plans: Vec<PlanFigures> =
            ran.into_iter().map(|plan| self.plan(plan, &race, &left)).collect();
        let rank = |p: &PlanFigures| match p.status {
            Status::Best | Status::Expected => 0,
            Status::Default | Status::Left | Status::Dropped => 1,
            Status::Screened => 2,
            Status::Failed => 3,
        };
        let badness =
            |p: &PlanFigures| p.ratio.map_or(f64::INFINITY, |ratio| self.settings.goal.cost(ratio));
        plans.sort_by(|a, b| rank(a).cmp(&rank(b)).then(badness(a).total_cmp(&badness(b))));
        plans
    }

    fn plan(&self, plan: Candidate, race: &Race, left: &BTreeSet<Candidate>) -> PlanFigures {
        let of_plan = || self.evidence.iter().filter(|t| t.order.candidate == plan);
        let failure: Option<&Failure> = of_plan().find_map(Trial::failure);
        let raced = race.racers.contains(&plan);
        let status = if failure.is_some() {
            Status::Failed
        } else if plan == DEFAULT {
            Status::Default
        } else if plan == self.verdict.leader {
            if self.verdict.is_better() { Status::Best } else { Status::Expected }
        } else if !raced {
            Status::Screened
        } else if left.contains(&plan) {
            Status::Left
        } else {
            Status::Dropped
        };
        let difference = if failure.is_some() {
            None
        } else if plan == DEFAULT {
            Some((0.0, 0.0, 0.0))
        } else if plan == self.verdict.leader {
            Some(ends(self.verdict.difference))
        } else if raced {
            Some(ends(race.difference(plan, DEFAULT)))
        } else {
            self.model_difference(plan)
        };
        let profile = self.space.plan(plan);
        let difference = difference.filter(|(centre, ..)| centre.is_finite());
        PlanFigures {
            plan: profile.to_string(),
            ratio: difference.map(|(centre, ..)| self.settings.goal.ratio(centre)),
            confidence: difference
                .filter(|(_, low, high)| low.is_finite() && high.is_finite())
                .map(|(_, low, high)| self.interval(low, high)),
            status,
            reason: failure.map(ToString::to_string),
            runs: of_plan().filter(|t| t.order.phase != Phase::WarmUp).count(),
            profile,
        }
    }

    /// What the screening model says about a plan against the default.
    fn model_difference(&self, plan: Candidate) -> Option<(f64, f64, f64)> {
        let draws = self.draws.iter().map(|s| s.cost(plan) - s.cost(DEFAULT)).collect();
        estimate(draws)
    }

    fn effects(&self) -> Vec<Effect> {
        let shape = self.space.shape();
        let mut effects = Vec::new();
        for (f, factor) in self.space.factors.iter().enumerate() {
            for (l, level) in factor.levels.iter().enumerate().skip(1) {
                let worked = self.evidence.iter().any(|t| {
                    t.failure().is_none()
                        && shape.coordinates(t.order.candidate).is_some_and(|p| p[f] == l)
                });
                let draws = self.draws.iter().map(|s| s.main_effect(&shape, f, l)).collect();
                let known = estimate(draws).filter(|_| worked);
                let Some((centre, low, high)) = known else { continue };
                effects.push(Effect {
                    factor: factor.name.name(),
                    level: level.name(),
                    ratio: self.settings.goal.ratio(centre),
                    confidence: self.interval(low, high),
                });
            }
        }
        effects
    }

    /// Ends of an interval of costs as ratios, the lower first.
    fn interval(&self, low: f64, high: f64) -> [f64; 2] {
        let (a, b) = (self.settings.goal.ratio(low), self.settings.goal.ratio(high));
        [a.min(b), a.max(b)]
    }
}

fn ends(difference: Difference) -> (f64, f64, f64) {
    (difference.centre, difference.low, difference.high)
}

/// The middle, and the ends of the middle 95 %.
fn estimate(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let skip = values.len() / 40;
    let ends = (*values.get(skip)?, *values.get(values.len().checked_sub(skip + 1)?)?);
    Some((median(&values), ends.0, ends.1))
}

#[cfg(test)]
mod tests;
