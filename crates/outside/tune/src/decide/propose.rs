//! Which combinations are worth running: drawn from what the screening model holds
//! possible.
//!
//! Each draw is a surface that agrees with the runs so far; the plan that is best on it
//! is a plan that may well be the best. Plans that win many draws are good or little
//! known, and both are worth a run. Every other run goes to a challenger, the winner of
//! another draw in which the first did not win: what is known to be good already need not
//! be shown again and again.
//!
//! Sources: W. R. Thompson, "On the Likelihood that One Unknown Probability Exceeds
//! Another in View of the Evidence of Two Samples", Biometrika 25 (1933); D. Russo, "Simple
//! Bayesian Algorithms for Best Arm Identification", COLT 2016: the challengers.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::budget::Shares;
use super::model::{self, Seen, Surface};
use super::{Settings, failed};
use crate::evidence::{Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};
use crate::statistics::{median, robust_sigma};

/// Draws for choosing plans.
pub const DRAWS: usize = 100;
/// Draws in which a challenger is looked for.
const CHALLENGES: usize = 30;

/// A block of plans to run next, some perhaps more than once; none when it is time to race.
pub fn promising(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
) -> Vec<Candidate> {
    let draws = surfaces(shape, settings, evidence, DRAWS);
    let winners: Vec<Candidate> = draws.iter().filter_map(|s| s.best(|_| true)).collect();
    if winners.is_empty() {
        return Vec::new();
    }
    let of_winner = |plan: &Candidate| mean(&draws, *plan);
    let least = winners.iter().map(of_winner).fold(f64::INFINITY, f64::min);
    let noise = median(&draws.iter().map(Surface::noise).collect::<Vec<f64>>());
    let left = shares.left_to_refine(evidence, mean(&draws, DEFAULT) - least, noise);
    let mut rng = StdRng::seed_from_u64(settings.seed ^ evidence.len() as u64);
    let mut draw = || winners[rng.random_range(0..winners.len())];
    let pick = |run: usize| {
        let winner = draw();
        let challenger = (0..CHALLENGES).map(|_| draw()).find(|&other| other != winner);
        challenger.filter(|_| run % 2 == 1).unwrap_or(winner)
    };
    (0..left.min(shares.refinement_block())).map(pick).collect()
}

/// The default, every candidate outside the grid, and of the plans that worked those most
/// likely to be best.
pub fn racers(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    count: usize,
) -> Vec<Candidate> {
    let out = failed(evidence);
    let mut racers: BTreeSet<Candidate> =
        shape.extras().filter(|extra| !out.contains(extra)).chain([DEFAULT]).collect();
    let worked: BTreeSet<Candidate> = evidence.iter().map(|t| t.order.candidate).collect();
    let draws = surfaces(shape, settings, evidence, DRAWS);
    let mut wins: BTreeMap<Candidate, usize> = BTreeMap::new();
    for winner in draws.iter().filter_map(|s| s.best(|plan| worked.contains(&plan))) {
        *wins.entry(winner).or_default() += 1;
    }
    // Most wins first; among equals the one expected to be better.
    let mut ranked: Vec<(usize, f64, Candidate)> =
        wins.into_iter().map(|(plan, wins)| (wins, mean(&draws, plan), plan)).collect();
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
    for (.., plan) in ranked {
        if racers.len() >= count {
            break;
        }
        racers.insert(plan);
    }
    racers.into_iter().collect()
}

/// Of these plans the one that these surfaces expect to be best.
pub fn best(draws: &[Surface], plans: &[Candidate]) -> Option<Candidate> {
    plans.iter().copied().min_by(|&a, &b| mean(draws, a).total_cmp(&mean(draws, b)))
}

/// The model's expectation of a plan's cost, up to a constant.
fn mean(draws: &[Surface], plan: Candidate) -> f64 {
    draws.iter().map(|surface| surface.cost(plan)).sum::<f64>() / draws.len().max(1) as f64
}

/// Surfaces that agree with everything measured so far.
#[must_use]
pub fn surfaces(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    count: usize,
) -> Vec<Surface> {
    let seen: Vec<Seen> = evidence
        .iter()
        .filter(|t| t.order.phase != Phase::WarmUp)
        .map(|t| Seen { plan: t.order.candidate, cost: t.cost(settings.goal) })
        .collect();
    let noise: Vec<f64> = evidence
        .iter()
        .filter(|t| t.order.phase == Phase::Noise)
        .filter_map(|t| t.cost(settings.goal))
        .collect();
    let seed = settings.seed ^ evidence.len() as u64;
    model::draws(shape, &seen, robust_sigma(&noise), count, seed)
}
