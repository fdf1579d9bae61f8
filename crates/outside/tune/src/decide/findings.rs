//! The claims about every plan, decided in one place. Tables, JSON, pictures, profiles and
//! sentences use them and so agree.
//!
//! ```text
//!  race, final --verdict--> leader shown better? --yes--> best: rounds give the figures
//!                                   |no
//!  model of all runs --------> least cost of all shown, the default's too --> expected
//! ```
//!
//! A plan is `best` if its own rounds show that. Otherwise the figures of all plans that were not
//! dropped come from the same source, the model of all runs. `expected` is then the plan with the
//! least of all figures shown, or one that is expected to cost no more and changes less. It is
//! never a plan that gains no more than the resolution over the default, nor one whose interval is
//! not known: a few runs that differ much show nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::budget::is_screened;
use super::model::{Effort, Surface};
use super::race::{Difference, Race};
use super::rounds::{NO_LOSS, Verdict, verdict};
use super::{Settings, failures, propose};
use crate::evidence::{Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};
use crate::statistics::{is_informative, median, robust_sigma};

/// Share of the permitted error that the model's intervals use, because its chains do not visit all
/// that is possible. Chosen so that the intervals hold the truth often enough
/// (`examples/coverage`).
const UNVISITED: f64 = 0.2;
/// Confidence of the intervals of main effects.
const OF_EFFECTS: f64 = 0.95;

/// The claim about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// The plan that all others are compared with.
    Default,
    /// Shown to be better than the default; no other plan is shown to be better than it.
    Best,
    /// No plan is shown to be better. This one is expected to gain more than the resolution and,
    /// but for differences that do not matter, no less than any other.
    Expected,
    /// Stayed in the race to its end without a difference from the others being shown.
    Tied,
    /// Shown to be worse than another.
    Dropped,
    /// Measured in the screening only.
    Screened,
    /// Fails.
    Failed,
}

impl Claim {
    /// Its name in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Best => "best",
            Self::Expected => "expected",
            Self::Tied => "tied",
            Self::Dropped => "dropped",
            Self::Screened => "screened",
            Self::Failed => "failed",
        }
    }
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Rounds in which the plan and the default ran side by side. The intervals of all plans of the
    /// race hold jointly.
    Rounds,
    /// The model of all runs. Each interval holds by itself.
    Model,
}

impl Basis {
    /// Its name in JSON and CSV.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::Model => "model",
        }
    }
}

/// A cost minus the default's, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The estimate.
    pub centre: f64,
    /// Lower end; infinite if unknown.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The source of the figure.
    pub basis: Basis,
}

/// The findings about a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The plan.
    pub plan: Candidate,
    /// The claim about it.
    pub claim: Claim,
    /// Its cost minus the default's; absent for the default, and if nothing could be compared.
    pub figure: Option<Figure>,
    /// Runs, without warm-up.
    pub runs: usize,
    /// Of these, runs that failed.
    pub failed: usize,
    /// Of these, runs that were cut short.
    pub cut: usize,
}

/// Main effect of a level: its cost minus that of the factor's first level, averaged over all
/// combinations of the other factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MainEffect {
    /// Index of the factor.
    pub factor: usize,
    /// Index of the level.
    pub level: usize,
    /// The estimate.
    pub centre: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// All findings of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Plans that ran, in the order shown: the plan that is named comes first.
    pub plans: Vec<Finding>,
    /// Levels that worked.
    pub effects: Vec<MainEffect>,
    /// Standard deviation of the default against itself, robust to disturbed runs; absent with
    /// fewer than two runs.
    pub noise: Option<f64>,
    /// How far the prior has held; absent without a prior, and before the first run.
    pub held: Option<Held>,
}

/// How far the prior has held in the runs, by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The share of the expectations of levels that are right; absent without any.
    pub right: Option<f64>,
    /// The weight of each earlier search: 1 if the program behaves as that one did, 0 if it has
    /// nothing in common with it.
    pub weights: Vec<f64>,
}

impl Held {
    fn of(settings: &Settings, draws: &[Surface]) -> Option<Self> {
        if settings.prior.is_empty() || draws.is_empty() {
            return None;
        }
        let mean = |figure: &dyn Fn(&Surface) -> f64| {
            draws.iter().map(figure).sum::<f64>() / draws.len() as f64
        };
        let weight = |search: usize| mean(&|draw| draw.weights()[search]);
        Some(Self {
            right: settings.prior.expects_levels().then(|| mean(&Surface::right)),
            weights: (0..settings.prior.searches.len()).map(weight).collect(),
        })
    }
}

impl Figure {
    /// Whether the interval is informative.
    #[must_use]
    pub fn is_known(&self) -> bool {
        is_informative((self.high - self.low) / 2.0)
    }
}

impl Findings {
    /// The findings of the evidence.
    #[must_use]
    pub fn new(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Self {
        Self::with(shape, settings, evidence, Effort::INTERVALS)
    }

    /// The same from fewer draws, for a preview between runs.
    #[must_use]
    pub fn glance(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Self {
        Self::with(shape, settings, evidence, Effort::CHOICE)
    }

    fn with(shape: &Shape, settings: &Settings, evidence: &[Trial], effort: Effort) -> Self {
        let draws = propose::surfaces(shape, settings, evidence, effort);
        let judge = Judge {
            shape,
            settings,
            evidence,
            verdict: verdict(shape, settings, evidence, || &draws),
            race: Race::new(evidence, Phase::Race, settings),
            out: failures::failed_plans(settings, evidence),
            draws: &draws,
        };
        Self {
            plans: judge.plans(),
            effects: judge.effects(),
            noise: noise(settings, evidence),
            held: Held::of(settings, &draws),
        }
    }

    /// The plan shown to be better than the default, if there is one.
    #[must_use]
    pub fn best(&self) -> Option<&Finding> {
        self.plans.iter().find(|finding| finding.claim == Claim::Best)
    }

    /// Without a best plan, the one expected to be best, if any is expected to gain more than the
    /// resolution.
    #[must_use]
    pub fn expected(&self) -> Option<&Finding> {
        self.plans.iter().find(|finding| finding.claim == Claim::Expected)
    }

    /// The plan that is named, shown or expected to be best; the default if there is none.
    #[must_use]
    pub fn named(&self) -> Candidate {
        self.best().or(self.expected()).map_or(DEFAULT, |finding| finding.plan)
    }
}

/// Standard deviation of the default's costs in the noise phase.
fn noise(settings: &Settings, evidence: &[Trial]) -> Option<f64> {
    let costs: Vec<f64> = evidence
        .iter()
        .filter(|t| t.order.phase == Phase::Noise)
        .filter_map(|t| t.cost(settings.goal))
        .collect();
    (costs.len() > 1).then(|| robust_sigma(&costs))
}

/// Makes the claims.
struct Judge<'a> {
    shape: &'a Shape,
    settings: &'a Settings,
    evidence: &'a [Trial],
    verdict: Verdict,
    race: Race,
    out: BTreeSet<Candidate>,
    /// Draws from the model.
    draws: &'a [Surface],
}

impl Judge<'_> {
    fn plans(&self) -> Vec<Finding> {
        let standing: BTreeSet<Candidate> = self.race.standing().into_iter().collect();
        let ran: BTreeSet<Candidate> = self.evidence.iter().map(|t| t.order.candidate).collect();
        let mut plans: Vec<Finding> =
            ran.into_iter().map(|plan| self.finding(plan, &standing)).collect();
        self.name_expected(&mut plans);
        let rank = |finding: &Finding| match finding.claim {
            Claim::Best | Claim::Expected => 0,
            Claim::Default | Claim::Tied | Claim::Dropped => 1,
            Claim::Screened => 2,
            Claim::Failed => 3,
        };
        plans.sort_by(|a, b| rank(a).cmp(&rank(b)).then(cost(a).total_cmp(&cost(b))));
        plans
    }

    fn finding(&self, plan: Candidate, standing: &BTreeSet<Candidate>) -> Finding {
        let raced = self.race.racers.contains(&plan);
        let claim = if plan == DEFAULT {
            Claim::Default
        } else if self.out.contains(&plan) {
            Claim::Failed
        } else if plan == self.verdict.leader && self.verdict.is_better() {
            Claim::Best
        } else if !raced {
            Claim::Screened
        } else if standing.contains(&plan) {
            Claim::Tied
        } else {
            Claim::Dropped
        };
        // If nothing is shown, figures that are compared must come from the same source.
        let by_rounds = match claim {
            Claim::Default | Claim::Failed | Claim::Screened => false,
            Claim::Best | Claim::Dropped => true,
            Claim::Tied | Claim::Expected => {
                self.verdict.is_better() || !is_screened(self.shape, self.settings, self.evidence)
            }
        };
        let figure = match claim {
            Claim::Default | Claim::Failed => None,
            Claim::Best => Some(of_rounds(self.verdict.difference)),
            // A plan that leads without proof has run in the final too.
            _ if by_rounds && plan == self.verdict.leader => {
                Some(of_rounds(self.verdict.difference))
            }
            _ if by_rounds => Some(of_rounds(self.race.difference(plan, DEFAULT))),
            _ => self.of_model(plan),
        };
        let runs = || {
            let of_plan = |t: &&Trial| t.order.candidate == plan && t.order.phase != Phase::WarmUp;
            self.evidence.iter().filter(of_plan)
        };
        let cut = runs().filter(|t| t.bound(self.settings.goal).is_some()).count();
        // Bounds alone are no measured figure.
        let figure = figure.filter(|_| cut == 0 || cut < runs().count());
        Finding {
            plan,
            claim,
            figure: figure.filter(|figure| figure.centre.is_finite()),
            runs: runs().count(),
            failed: runs().filter(|t| t.failure().is_some()).count(),
            cut,
        }
    }

    /// Names the most promising plan if none is shown to be better than the default: the one with
    /// the least of all figures shown, including the default's, if its interval is known. Of plans
    /// that cost no more, but for differences that do not matter, it names the one that changes
    /// least.
    fn name_expected(&self, plans: &mut [Finding]) {
        if plans.iter().any(|finding| finding.claim == Claim::Best) {
            return;
        }
        let may_be_named = |finding: &Finding| {
            matches!(finding.claim, Claim::Tied | Claim::Screened)
                && finding.figure.is_some_and(|figure| figure.is_known())
        };
        let is_shown = |finding: &&Finding| finding.figure.is_some();
        let least = plans.iter().filter(is_shown).min_by(|a, b| cost(a).total_cmp(&cost(b)));
        let Some(least) = least.filter(|least| may_be_named(least)).map(cost) else { return };
        let resolution = self.settings.resolution.ln_1p();
        let burden = |finding: &Finding| self.shape.burden(finding.plan);
        let simplest = plans
            .iter_mut()
            .filter(|plan| may_be_named(plan) && cost(plan) < -resolution)
            .filter(|plan| cost(plan) <= least + resolution * NO_LOSS)
            .min_by(|a, b| burden(a).cmp(&burden(b)).then(cost(a).total_cmp(&cost(b))));
        if let Some(simplest) = simplest {
            simplest.claim = Claim::Expected;
        }
    }

    /// The model's figure for a plan against the default.
    fn of_model(&self, plan: Candidate) -> Option<Figure> {
        let draws = self.draws.iter().map(|s| s.cost(plan) - s.cost(DEFAULT)).collect();
        let (centre, low, high) = middle(draws, self.settings.confidence)?;
        Some(Figure { centre, low, high, basis: Basis::Model })
    }

    fn effects(&self) -> Vec<MainEffect> {
        let mut effects = Vec::new();
        for (factor, &levels) in self.shape.levels.iter().enumerate() {
            for level in 1..levels {
                let worked = |t: &Trial| {
                    t.failure().is_none()
                        && self
                            .shape
                            .coordinates(t.order.candidate)
                            .is_some_and(|point| point[factor] == level)
                };
                if !self.evidence.iter().any(worked) {
                    continue;
                }
                let draws =
                    self.draws.iter().map(|s| s.main_effect(self.shape, factor, level)).collect();
                let known = middle(draws, OF_EFFECTS);
                effects.extend(known.map(|(centre, low, high)| MainEffect {
                    factor,
                    level,
                    centre,
                    low,
                    high,
                }));
            }
        }
        effects
    }
}

/// The cost by which a plan is ranked; the default's is 0.
fn cost(finding: &Finding) -> f64 {
    match (finding.claim, finding.figure) {
        (Claim::Default, _) => 0.0,
        (_, Some(figure)) => figure.centre,
        (_, None) => f64::INFINITY,
    }
}

fn of_rounds(difference: Difference) -> Figure {
    let Difference { centre, low, high, .. } = difference;
    Figure { centre, low, high, basis: Basis::Rounds }
}

/// The median, and the ends of an interval that holds the truth with this confidence.
fn middle(mut values: Vec<f64>, confidence: f64) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    // There are at most a few hundred values.
    let skip = (UNVISITED * (1.0 - confidence) / 2.0 * values.len() as f64) as usize;
    let ends = (*values.get(skip)?, *values.get(values.len().checked_sub(skip + 1)?)?);
    Some((median(&values), ends.0, ends.1))
}
