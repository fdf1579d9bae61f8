//! Proposes plans that are worth running, by the draws of the screening model.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::{Shares, is_economical};
use super::contenders::Contenders;
use super::model::{self, Effort, Given, Seen, Surface};
use super::{Settings, failures};
use crate::evidence::{Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};
use crate::statistics::{median, robust_sigma};

/// Share of draws in which a plan must be best to start in the race.
const RACES: f64 = 0.1;
/// Expected loss by naming the leader at which the refinement ends, relative to the resolution.
const LEAST_LOSS: f64 = 0.1;

/// Runs of the default that show how much two runs differ.
const LEAST_NOISE_RUNS: usize = 3;

/// A block of plans to run next, some possibly more than once; empty when it is time to race.
pub fn promising(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
) -> Vec<Candidate> {
    let draws = surfaces(shape, settings, evidence, Effort::CHOICE);
    let Some(mut contenders) = Contenders::new(shape.candidates(), &draws) else {
        return Vec::new();
    };
    if contenders.loss() < LEAST_LOSS * settings.resolution {
        return Vec::new();
    }
    let noise = median(&draws.iter().map(Surface::noise).collect::<Vec<f64>>());
    let gain = mean(&draws, DEFAULT) - contenders.least();
    let left = shares.left_to_refine(evidence, gain, noise);
    (0..left.min(shares.refinement_block())).map(|_| contenders.choose(noise)).collect()
}

/// The plans of the race: the default, every candidate outside the grid, and those working plans
/// that may well be best. `out` are plans that failed, including in the race.
pub fn racers(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    out: &BTreeSet<Candidate>,
    count: usize,
) -> Vec<Candidate> {
    let mut racers: BTreeSet<Candidate> =
        shape.extras().filter(|extra| !out.contains(extra)).chain([DEFAULT]).collect();
    let ran: BTreeSet<Candidate> = evidence.iter().map(|t| t.order.candidate).collect();
    let may_race = |plan: Candidate| plan != DEFAULT && ran.contains(&plan) && !out.contains(&plan);
    let draws = surfaces(shape, settings, evidence, Effort::CHOICE);
    let mut wins: BTreeMap<Candidate, usize> = BTreeMap::new();
    for winner in draws.iter().filter_map(|s| s.best(may_race)) {
        *wins.entry(winner).or_default() += 1;
    }
    // Most wins come first; among equals, the one expected to be better.
    let mut ranked: Vec<(usize, f64, Candidate)> =
        wins.into_iter().map(|(plan, wins)| (wins, mean(&draws, plan), plan)).collect();
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let likely = |&(wins, ..): &(usize, f64, Candidate)| wins as f64 >= RACES * draws.len() as f64;
    let sure = ranked.iter().take_while(|ranked| likely(ranked)).count().max(1);
    for (.., plan) in ranked.into_iter().take(sure) {
        if racers.len() >= count {
            break;
        }
        racers.insert(plan);
    }
    racers.into_iter().collect()
}

/// The one run that tells most about which plan is best, and what naming the leader is expected to
/// lose before it. `None` if no plan is likely to work.
pub fn most_telling(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
) -> Option<(Candidate, f64)> {
    let draws = surfaces(shape, settings, evidence, Effort::FEW);
    let plans = shape.candidates().filter(|plan| !is_hopeless(*plan, settings, evidence));
    let mut contenders = Contenders::new(plans, &draws)?;
    let noise = median(&draws.iter().map(Surface::noise).collect::<Vec<f64>>());
    Some((contenders.choose(noise), contenders.loss()))
}

/// Whether a plan's runs were all cut short, and more than one was. Another one would be as well: the
/// model only knows that its cost is above a bound, and takes that for much to learn.
fn is_hopeless(plan: Candidate, settings: &Settings, evidence: &[Trial]) -> bool {
    let was_cut = |t: &&Trial| t.order.candidate == plan && t.bound(settings.goal).is_some();
    !has_figure(plan, settings, evidence) && evidence.iter().filter(was_cut).count() > 1
}

/// Whether a run of this plan has given a figure.
fn has_figure(plan: Candidate, settings: &Settings, evidence: &[Trial]) -> bool {
    evidence.iter().any(|t| t.order.candidate == plan && t.cost(settings.goal).is_some())
}

/// The plan that is expected to be best of those that worked, if one is expected to beat the
/// default by more than the resolution.
pub fn finalist(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Option<Candidate> {
    let draws = surfaces(shape, settings, evidence, Effort::INTERVALS);
    // A plan whose runs were all cut short has shown nothing but that it is worse.
    let plans: Vec<Candidate> = failures::working(settings, evidence)
        .into_iter()
        .filter(|plan| has_figure(*plan, settings, evidence))
        .collect();
    let best = best(&draws, &plans)?;
    (typical_loss(&draws, best, DEFAULT) < -settings.resolution.ln_1p()).then_some(best)
}

/// The plan that these surfaces expect to be best.
pub fn best(draws: &[Surface], plans: &[Candidate]) -> Option<Candidate> {
    plans.iter().copied().min_by(|&a, &b| mean(draws, a).total_cmp(&mean(draws, b)))
}

/// The model's expectation of a plan's cost, up to a constant.
fn mean(draws: &[Surface], plan: Candidate) -> f64 {
    draws.iter().map(|surface| surface.cost(plan)).sum::<f64>() / draws.len().max(1) as f64
}

/// Cost of a plan minus that of another; 0 if the model finds it most likely that they do not
/// differ.
pub fn typical_loss(draws: &[Surface], plan: Candidate, other: Candidate) -> f64 {
    let differences: Vec<f64> =
        draws.iter().map(|surface| surface.cost(plan) - surface.cost(other)).collect();
    median(&differences)
}

/// Draws surfaces that agree with everything measured so far.
#[must_use]
pub fn surfaces(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    effort: Effort,
) -> Vec<Surface> {
    let working = failures::working(settings, evidence);
    let seen: Vec<Seen> = evidence
        .iter()
        .filter(|t| t.order.phase != Phase::WarmUp)
        // A failure by chance tells nothing about the plan.
        .filter(|t| t.failure().is_none() || !working.contains(&t.order.candidate))
        .map(|t| Seen {
            plan: t.order.candidate,
            cost: t.cost(settings.goal).or(t.bound(settings.goal)),
            is_bound: t.bound(settings.goal).is_some(),
        })
        .collect();
    let noise: Vec<f64> = evidence
        .iter()
        .filter(|t| t.order.phase == Phase::Noise)
        .filter_map(|t| t.cost(settings.goal))
        .collect();
    let seed = settings.seed ^ evidence.len() as u64;
    let noise = if noise.len() < LEAST_NOISE_RUNS { f64::NAN } else { robust_sigma(&noise) };
    let is_few = is_economical(shape, settings);
    let given = Given { noise, prior: &settings.prior, is_few };
    model::draws(shape, &seen, given, effort, seed)
}
