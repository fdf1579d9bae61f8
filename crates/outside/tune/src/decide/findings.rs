//! What is claimed of every plan, decided once: tables, JSON, pictures, profiles and sentences
//! are made from this and say the same.
//!
//! ```text
//!  race, final --verdict--> leader shown better? --yes--> best: rounds give the figures
//!                                   |no
//!  model of all runs --------> least cost of all shown, the default's too --> expected
//! ```
//!
//! A plan is `best` when rounds of its own show it. Otherwise every plan that was not dropped
//! has its figure from the same place, the model of all runs, and `expected` is the one with
//! the least of all figures shown, or one that is expected to cost no more and changes less: never
//! one that gains no more than the resolution over the default.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::budget::is_screened;
use super::model::{Effort, Surface};
use super::race::{Difference, Race};
use super::rounds::{NO_LOSS, Verdict, verdict};
use super::{Settings, failures, propose};
use crate::evidence::{Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};
use crate::statistics::{median, robust_sigma};

/// What the model's intervals leave out, over what they may: its chains do not visit all that
/// is possible. Chosen so that the intervals hold the truth often enough (`examples/coverage`).
const UNVISITED: f64 = 0.2;
/// Half the length of an interval, as a logarithm, from which on it says nothing: tenfold to
/// either side.
const NOTHING: f64 = std::f64::consts::LN_10;
/// Confidence of the intervals of main effects.
const OF_EFFECTS: f64 = 0.95;

/// What is claimed of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// What all others are compared with.
    Default,
    /// Shown to be better than the default, and no other is shown to be better than it.
    Best,
    /// Nothing is shown, and this plan is expected to gain more than the resolution and, give or
    /// take what does not matter, no less than any other.
    Expected,
    /// In the race to its end: it cannot be told from the others there.
    Tied,
    /// Shown to be worse than another.
    Dropped,
    /// Measured by the screening only.
    Screened,
    /// Cannot be used.
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
    /// Rounds in which the plan and the default ran side by side; with the others of the race,
    /// the intervals hold together.
    Rounds,
    /// The model of all runs; each interval holds by itself.
    Model,
}

/// A cost less the default's, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The estimate.
    pub centre: f64,
    /// Lower end; infinite where nothing is known.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Where it comes from.
    pub basis: Basis,
}

/// What is known of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The plan.
    pub plan: Candidate,
    /// What is claimed of it.
    pub claim: Claim,
    /// Its cost less the default's; absent for the default, and where nothing could be compared.
    pub figure: Option<Figure>,
    /// Runs, without warm-up.
    pub runs: usize,
    /// Of these, runs that failed.
    pub failed: usize,
}

/// Main effect of a level: its cost less that of the factor's first level, averaged over all
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

/// Everything that is claimed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Plans that ran, in the order shown: the one named first.
    pub plans: Vec<Finding>,
    /// Levels that worked.
    pub effects: Vec<MainEffect>,
    /// Standard deviation of the default against itself, little moved by disturbed runs; absent
    /// with fewer than two runs.
    pub noise: Option<f64>,
}

impl Figure {
    /// Whether the interval says anything.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.high - self.low < 2.0 * NOTHING
    }
}

impl Findings {
    /// What the evidence says.
    #[must_use]
    pub fn new(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Self {
        Self::with(shape, settings, evidence, Effort::INTERVALS)
    }

    /// The same from fewer draws, for a look between runs.
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
        Self { plans: judge.plans(), effects: judge.effects(), noise: noise(settings, evidence) }
    }

    /// The plan shown to be better than the default, if there is one.
    #[must_use]
    pub fn best(&self) -> Option<&Finding> {
        self.plans.iter().find(|finding| finding.claim == Claim::Best)
    }

    /// Without a best plan: the one expected to be, if any is expected to gain more than the
    /// resolution.
    #[must_use]
    pub fn expected(&self) -> Option<&Finding> {
        self.plans.iter().find(|finding| finding.claim == Claim::Expected)
    }

    /// The plan that is named, shown or expected to be best; the default without one.
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
    /// What the model holds possible.
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
        // Where nothing is shown, figures that are compared with each other come from one place.
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
            // A plan that leads without being shown has run in the final too.
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
        Finding {
            plan,
            claim,
            figure: figure.filter(|figure| figure.centre.is_finite()),
            runs: runs().count(),
            failed: runs().filter(|t| t.failure().is_some()).count(),
        }
    }

    /// Names the plan to expect most of, where none is shown to be better than the default: the
    /// least of all figures shown, the default's among them, or of those that cost no more,
    /// give or take what does not matter, the one that changes least.
    fn name_expected(&self, plans: &mut [Finding]) {
        if plans.iter().any(|finding| finding.claim == Claim::Best) {
            return;
        }
        let may_be_named =
            |finding: &Finding| matches!(finding.claim, Claim::Tied | Claim::Screened);
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

    /// What the model says about a plan against the default.
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

/// What a plan is ranked by; the default costs nothing more than itself.
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
    // Of at most a few hundred values.
    let skip = (UNVISITED * (1.0 - confidence) / 2.0 * values.len() as f64) as usize;
    let ends = (*values.get(skip)?, *values.get(values.len().checked_sub(skip + 1)?)?);
    Some((median(&values), ends.0, ends.1))
}
