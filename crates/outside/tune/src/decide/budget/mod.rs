//! The number of runs that a search may make, and its division among the phases.
//!
//! The shares were chosen with the simulator in `tests/simulator`.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::race::LEAST_ROUNDS;
use super::{Settings, Stop};
use crate::evidence::{Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};

/// Runs of one screening block, and the least of a refinement block.
pub const BLOCK: usize = 8;
/// Spaces of at most this many candidates are raced without screening.
const SMALL: usize = 9;
/// Most plans in the race of a large space, including the default.
const RACERS: usize = 4;
/// Default number of runs for each level of each factor.
const RUNS_PER_LEVEL: usize = 12;
/// The same on an emulated machine, whose runs differ little.
const RUNS_PER_LEVEL_EMULATED: usize = 4;
/// Least runs for each level of each factor that the screening and the refinement get, before the
/// final gets more than its least share.
const LEAST_PER_LEVEL: usize = 4;
/// Rounds per plan to plan with if the time is too short for the whole space.
const SHORT_RACE: usize = 5;
/// Searches with fewer runs than this are economical.
const FEW: usize = 40;
/// Runs of the design of an economical search.
pub const FEW_DESIGN: usize = 6;
/// Distance of a difference from 0, in standard errors, that a final can show.
const SHOWN: f64 = 5.5;

/// Whether the space has too many plans to race all of them.
fn is_large(shape: &Shape) -> bool {
    shape.candidates().count() > SMALL
}

/// Whether a search has so few runs that it has no noise phase and no race of all plans: fewer than
/// 40. Two plans always race, and so do plans outside the grid if the runs suffice. With a limit of
/// time, the number of runs is not known in advance.
#[must_use]
pub fn is_economical(shape: &Shape, settings: &Settings) -> bool {
    let has_grid = shape.cells() > 2;
    let races = || is_pair(shape) || !has_grid && settings.max_runs >= settings.least_raced(shape);
    settings.max_seconds.is_none() && settings.max_runs < FEW && !races()
}

/// Whether the model chooses which plans run, because there are too many to race all of them, or too
/// few runs.
#[must_use]
pub fn is_selective(shape: &Shape, settings: &Settings) -> bool {
    is_large(shape) || is_economical(shape, settings)
}

/// Whether the default is compared with at most one plan.
fn is_pair(shape: &Shape) -> bool {
    shape.candidates().count() <= 2
}

/// Whether plans are screened before they are raced: in large spaces, if there is time, and in small
/// ones, if there are, or were, few runs.
#[must_use]
pub fn is_screened(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> bool {
    let was_screened =
        || evidence.iter().any(|t| matches!(t.order.phase, Phase::Screen | Phase::Refine));
    (is_selective(shape, settings) || was_screened())
        && short_list(shape, settings, evidence).is_none()
}

/// The plans besides the default that are compared at all, if the time is too short for the whole
/// space: as many as can be settled, those of which most is expected first, and if nothing is, those
/// that change least. Among these, allocators come
/// first, because they usually make the largest difference (systematic-numa-study, section 5), in
/// an order drawn from the seed. `None` if all plans are compared.
#[must_use]
pub fn short_list(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
) -> Option<Vec<Candidate>> {
    if is_economical(shape, settings) {
        return None;
    }
    let is_before = |t: &&Trial| matches!(t.order.phase, Phase::WarmUp | Phase::Noise);
    let before = evidence.iter().take_while(is_before).count();
    let total = settings.budget(&evidence[..before]);
    let measured = settings.warm_up + settings.noise_runs;
    if before >= measured && total < settings.least_raced(shape) {
        let left = total.saturating_sub(before);
        // At least one plan can be settled.
        let count = (left / SHORT_RACE).saturating_sub(1).max(1);
        let mut plans: Vec<Candidate> = shape.extras().collect();
        let mut cells: Vec<Candidate> =
            shape.candidates().filter(|plan| *plan != DEFAULT && !plans.contains(plan)).collect();
        cells.shuffle(&mut StdRng::seed_from_u64(settings.seed));
        let first_changed = |plan| {
            let point = shape.coordinates(plan).unwrap_or_default();
            point.iter().position(|&level| level != 0)
        };
        cells.sort_by_key(|&plan| (shape.burden(plan), first_changed(plan)));
        let expected = |plan: &Candidate| settings.prior.cost(shape, *plan);
        // A stable sort, which changes nothing without a prior.
        cells.sort_by(|a, b| expected(a).total_cmp(&expected(b)));
        plans.extend(cells);
        plans.truncate(count);
        return Some(plans);
    }
    // A race that began on a short list continues with it, whatever time is left now.
    let of = |phase: Phase| evidence.iter().filter(move |t| t.order.phase == phase);
    if is_large(shape) && of(Phase::Screen).next().is_none() {
        let raced: BTreeSet<Candidate> = of(Phase::Race).map(|t| t.order.candidate).collect();
        let raced: Vec<Candidate> = raced.into_iter().filter(|plan| *plan != DEFAULT).collect();
        return Some(raced).filter(|raced| !raced.is_empty());
    }
    None
}

/// Whether only some of the plans are compared because the time is too short for all.
#[must_use]
pub fn is_short(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> bool {
    short_list(shape, settings, evidence)
        .is_some_and(|list| list.len() + 1 < shape.candidates().count())
}

/// The runs and plans that fit the time that is left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Most runs.
    pub runs: usize,
    /// Time that these take, in seconds.
    pub seconds: f64,
    /// Plans that are compared, including the default.
    pub plans: usize,
    /// All plans.
    pub of: usize,
}

/// The runs and plans that fit the time that is left, once the default has run.
#[must_use]
pub fn outlook(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Outlook {
    let runs = settings.budget(evidence).saturating_sub(evidence.len());
    let spent: f64 = evidence.iter().map(|t| t.seconds).sum();
    let of = shape.candidates().count();
    Outlook {
        runs,
        seconds: runs as f64 * spent / evidence.len().max(1) as f64,
        plans: short_list(shape, settings, evidence).map_or(of, |plans| plans.len() + 1),
        of,
    }
}

/// The least runs that compare one plan with the default, if the time is known to be too short for
/// them. This is judged by the fastest run, and only before anything but the default has run.
/// Before the first run that counts, the time is too short only if it is over.
#[must_use]
pub fn too_few_runs(settings: &Settings, evidence: &[Trial]) -> Option<usize> {
    let limit = settings.max_seconds?;
    let is_before = |t: &Trial| matches!(t.order.phase, Phase::WarmUp | Phase::Noise);
    let is_warm = |t: &Trial| t.order.phase == Phase::Noise && t.failure().is_none();
    if evidence.is_empty() || !evidence.iter().all(is_before) {
        return None;
    }
    let spent: f64 = evidence.iter().map(|t| t.seconds).sum();
    if !evidence.iter().any(is_warm) {
        return (spent >= limit)
            .then_some(settings.warm_up + settings.noise_runs + 2 * LEAST_ROUNDS);
    }
    let fastest = evidence.iter().filter(|t| is_warm(t)).map(|t| t.seconds).fold(limit, f64::min);
    let least = settings.warm_up + settings.noise_runs + 2 * LEAST_ROUNDS;
    let left = least.saturating_sub(evidence.len());
    (spent + left as f64 * fastest > limit).then_some(least)
}

/// The number of unknowns of a space: levels, and plans outside the grid.
fn learnt(shape: &Shape) -> usize {
    shape.levels.iter().sum::<usize>() + shape.extras
}

impl Settings {
    /// Default number of runs for a space. It grows with the levels and not with their
    /// combinations, and is never lower than what it takes to compare a handful of plans.
    #[must_use]
    pub fn default_max_runs(shape: &Shape) -> usize {
        (learnt(shape) * RUNS_PER_LEVEL).clamp(80, 750)
    }

    /// Default number of runs for a space on an emulated machine, where two runs differ only by what
    /// the seed perturbs.
    #[must_use]
    pub fn default_max_runs_emulated(shape: &Shape) -> usize {
        (learnt(shape) * RUNS_PER_LEVEL_EMULATED).clamp(40, 250)
    }

    /// The least `max_runs` that lets a search come to an end, or with which it can name a plan.
    #[must_use]
    pub fn least_runs(&self, shape: &Shape) -> usize {
        let raced = self.least_raced(shape);
        if is_pair(shape) || self.max_seconds.is_some() {
            return raced;
        }
        // The design, and as many runs that the model chooses.
        raced.min(self.warm_up + self.noise_runs + 2 * FEW_DESIGN)
    }

    /// The least runs of a search that races plans.
    #[must_use]
    pub fn least_raced(&self, shape: &Shape) -> usize {
        if shape.candidates().count() < 2 {
            // There is nothing to compare the default with.
            return self.warm_up + self.noise_runs;
        }
        let (screening, racers) = if is_large(shape) {
            (2 * BLOCK, 3 + shape.extras)
        } else {
            (0, shape.candidates().count())
        };
        self.warm_up + self.noise_runs + screening + (racers + 2) * LEAST_ROUNDS
    }

    /// Most runs. The time limit is converted into runs by the time that runs took so far.
    #[must_use]
    pub fn budget(&self, evidence: &[Trial]) -> usize {
        let Some(limit) = self.max_seconds else { return self.max_runs };
        let spent: f64 = evidence.iter().map(|t| t.seconds).sum();
        if evidence.is_empty() || spent <= 0.0 {
            return self.max_runs;
        }
        let per_run = spent / evidence.len() as f64;
        // The conversion saturates: 0 below, far above any number of runs at the top.
        self.max_runs.min(evidence.len() + ((limit - spent) / per_run) as usize)
    }
}

/// A budget, divided among the phases.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Most runs of all phases.
    pub total: usize,
    /// Why the search ends when they are used up.
    pub exhausted: Stop,
    /// Runs of the screening design.
    pub screen: usize,
    /// Runs kept for the final.
    pub last: usize,
    /// Plans that start in the race.
    pub racers: usize,
    /// Most runs that the refinement leaves to the race and the final.
    most_kept: usize,
    /// Runs to divide: all except those that measure the noise.
    runs: usize,
}

impl Shares {
    /// Divides the budget according to the evidence.
    pub fn new(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Self {
        let total = settings.budget(evidence);
        let runs = total.saturating_sub(settings.warm_up + settings.noise_runs);
        let is_before = |t: &&Trial| t.order.phase != Phase::Race;
        let rest = total.saturating_sub(evidence.iter().take_while(is_before).count());
        let blocks = (runs as f64 * 0.15 / BLOCK as f64).round() as usize;
        let racers = (rest / LEAST_ROUNDS).clamp(3, RACERS) + shape.extras;
        let (screen, last) = if is_screened(shape, settings, evidence) {
            (blocks.max(1) * BLOCK, (rest / 2).min(rest.saturating_sub(racers * LEAST_ROUNDS)))
        } else {
            (0, runs * 15 / 100)
        };
        Self {
            total,
            exhausted: if total < settings.max_runs { Stop::MaxTime } else { Stop::MaxRuns },
            screen,
            last: last.max(2 * LEAST_ROUNDS),
            racers,
            most_kept: runs
                .saturating_sub(LEAST_PER_LEVEL * learnt(shape))
                .clamp(runs * 22 / 100, runs * 60 / 100),
            runs,
        }
    }

    /// Runs left of the whole budget.
    pub fn left(&self, evidence: &[Trial]) -> usize {
        self.total.saturating_sub(evidence.len())
    }

    /// Runs left for the refinement. `gain` is the expected gain of the best plan over the default,
    /// as costs, and `noise` the standard deviation of a run. The smaller the gain, the more rounds
    /// the race and the final need.
    pub fn left_to_refine(&self, evidence: &[Trial], gain: f64, noise: f64) -> usize {
        // The conversion saturates: 0 below, far above any number of runs at the top.
        let rounds = (2.0 * (SHOWN * noise / gain.max(0.0)).powi(2)) as usize;
        let kept = rounds.saturating_mul(2).clamp(self.runs * 22 / 100, self.most_kept);
        self.left(evidence).saturating_sub(kept)
    }

    /// Runs of one refinement block: the refinement has about ten blocks, each of which uses what
    /// the earlier ones have shown.
    pub fn refinement_block(&self) -> usize {
        BLOCK.max(self.runs / 12)
    }

    /// Runs left for the race.
    pub fn left_to_race(&self, evidence: &[Trial]) -> usize {
        let finals = evidence.iter().filter(|t| t.order.phase == Phase::Final).count();
        self.left(evidence).saturating_sub(self.last.saturating_sub(finals))
    }
}

#[cfg(test)]
mod tests;
