//! Which combinations are worth running: drawn from what the screening model holds
//! possible.
//!
//! Each draw is a surface that agrees with the runs so far; the plan that is best on it
//! is a plan that may well be the best. Plans that win many draws are good or little
//! known, and both are worth a run.
//!
//! Source: W. R. Thompson, "On the Likelihood that One Unknown Probability Exceeds
//! Another in View of the Evidence of Two Samples", Biometrika 25 (1933).

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::model::{Model, Seen};
use super::{Settings, failed};
use crate::evidence::{Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};

/// Draws for choosing racers.
const DRAWS: usize = 100;

/// Up to `count` different plans to run next.
pub fn promising(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    count: usize,
) -> Vec<Candidate> {
    let Some(model) = fit(shape, settings, evidence) else { return Vec::new() };
    let open = Open::new(shape, evidence);
    let mut rng = StdRng::seed_from_u64(settings.seed ^ evidence.len() as u64);
    let mut chosen = Vec::with_capacity(count);
    for _ in 0..count {
        let surface = model.sample(&mut rng);
        let best = open
            .plans()
            .filter(|plan| !chosen.contains(plan))
            .filter_map(|plan| Some((surface.cost(plan)?, plan)))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        chosen.extend(best.map(|(_, plan)| plan));
    }
    chosen
}

/// The default, every candidate outside the grid, and the plans most likely to be best.
pub fn racers(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    count: usize,
) -> Vec<Candidate> {
    let out = failed(evidence);
    let mut racers: BTreeSet<Candidate> =
        shape.extras().filter(|extra| !out.contains(extra)).chain([DEFAULT]).collect();
    if let Some(model) = fit(shape, settings, evidence) {
        let open = Open::new(shape, evidence);
        let mut rng = StdRng::seed_from_u64(settings.seed ^ evidence.len() as u64);
        let mut wins: BTreeMap<Candidate, usize> = BTreeMap::new();
        for _ in 0..DRAWS {
            let surface = model.sample(&mut rng);
            let best = open
                .plans()
                .filter_map(|plan| Some((surface.cost(plan)?, plan)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, plan)) = best {
                *wins.entry(plan).or_default() += 1;
            }
        }
        // Most wins first; among equals the one expected to be better.
        let mean = model.mean();
        let mut ranked: Vec<(usize, Candidate)> = wins.into_iter().map(|(c, n)| (n, c)).collect();
        ranked.sort_by(|a, b| {
            let cost = |c| mean.cost(c).unwrap_or(f64::INFINITY);
            b.0.cmp(&a.0).then(cost(a.1).total_cmp(&cost(b.1)))
        });
        for (_, plan) in ranked {
            if racers.len() >= count {
                break;
            }
            racers.insert(plan);
        }
    }
    racers.into_iter().collect()
}

/// The model of everything measured in the grid so far.
pub fn fit<'a>(shape: &'a Shape, settings: &Settings, evidence: &[Trial]) -> Option<Model<'a>> {
    let mut blocks: BTreeMap<(Phase, u32), usize> = BTreeMap::new();
    let seen: Vec<Seen> = evidence
        .iter()
        .filter(|t| t.order.phase != Phase::WarmUp)
        .filter_map(|t| {
            let next = blocks.len();
            let block = *blocks.entry((t.order.phase, t.order.block)).or_insert(next);
            Some(Seen { cell: t.order.candidate, block, cost: t.cost(settings.goal)? })
        })
        .collect();
    let noise: Vec<f64> = evidence
        .iter()
        .filter(|t| t.order.phase == Phase::Noise)
        .filter_map(|t| t.cost(settings.goal))
        .collect();
    Model::fit(shape, &seen, crate::statistics::deviation(&noise))
}

/// Cells that have not failed and that share no level, and no pair of levels, with
/// nothing but failures.
struct Open<'a> {
    shape: &'a Shape,
    failed: BTreeSet<Candidate>,
    /// Levels and pairs of levels that failed at least twice and never worked.
    bad: BTreeSet<Trait>,
}

/// One level, or two levels of different factors, as (factor, level).
type Trait = ((usize, usize), (usize, usize));

impl<'a> Open<'a> {
    fn new(shape: &'a Shape, evidence: &[Trial]) -> Self {
        let mut failures: BTreeMap<Trait, usize> = BTreeMap::new();
        let mut worked: BTreeSet<Trait> = BTreeSet::new();
        for trial in evidence {
            let Some(point) = shape.coordinates(trial.order.candidate) else { continue };
            for t in traits(&point) {
                if trial.failure().is_some() {
                    *failures.entry(t).or_default() += 1;
                } else {
                    worked.insert(t);
                }
            }
        }
        let bad = failures
            .into_iter()
            .filter(|(t, count)| *count >= 2 && !worked.contains(t))
            .map(|(t, _)| t)
            .collect();
        Self { shape, failed: failed(evidence), bad }
    }

    fn plans(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.shape.candidates().filter(|&plan| {
            !self.failed.contains(&plan)
                && (self.bad.is_empty()
                    || self
                        .shape
                        .coordinates(plan)
                        .is_some_and(|point| traits(&point).all(|t| !self.bad.contains(&t))))
        })
    }
}

fn traits(point: &[usize]) -> impl Iterator<Item = Trait> + '_ {
    let level = |f: usize| (f, point[f]);
    (0..point.len()).flat_map(move |f| (f..point.len()).map(move |g| (level(f), level(g))))
}
