//! The screening model: predicts every plan, measured or not, from the runs so far.
//!
//! The logarithm of the metric is modelled as
//!
//! ```text
//!  drift + earlier searches + sum of main effects + sum of two-factor interactions
//!        + the plan's own + noise
//! ```
//!
//! Few of these effects matter ("effect sparsity"), and which ones is unknown. So every effect is
//! either zero or normal. Each factor and each pair of factors has its own size of effects and its
//! own share of zero ones. The machine drifts as a random walk, and some runs are disturbed
//! (`tails`). A Markov chain visits the states that agree with the runs, and each surface kept from
//! it is a draw from the possible ones. In the same manner, `causes` draws why plans fail.
//!
//! Sources: G. E. P. Box, R. D. Meyer, "An Analysis for Unreplicated Fractional Factorials",
//! Technometrics 28 (1986); E. I. George, R. E. McCulloch, "Variable Selection via Gibbs
//! Sampling", Journal of the American Statistical Association 88 (1993); H. Chipman,
//! "Bayesian Variable Selection with Related Predictors", Canadian Journal of Statistics 24
//! (1996).
//!
//! With few runs, a chain keeps the explanation of the differences with which it started. Several
//! chains, half of which begin by taking all differences for disturbances, together cover what is
//! possible.
//!
//! The model proposes which plans to race, and which of the plans left by a race to take. Only the
//! runs of the race support the claim that a plan is better than the default.

mod causes;
mod drift;
mod tails;
mod terms;
mod transfer;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, StandardNormal};

use super::prior::Prior;
use crate::shape::{Candidate, Shape};
use causes::Causes;
use drift::Drift;
use tails::Tails;
use terms::Terms;
use transfer::Transfers;

/// Steps of the chain before draws are kept.
const BURN_IN: usize = 60;
/// Assumed noise, as a standard deviation of costs, if it was not measured.
pub const USUAL_NOISE: f64 = 0.05;

/// The number of draws.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Chains with different starts.
    pub chains: usize,
    /// Draws of all chains together.
    pub draws: usize,
    /// Steps of a chain per draw.
    pub steps: usize,
}

impl Effort {
    /// Enough draws to choose plans.
    pub const CHOICE: Self = Self { chains: 2, draws: 100, steps: 2 };
    /// Enough draws to choose plans when there are few runs, each of which costs much.
    pub const FEW: Self = Self { chains: 4, draws: 200, steps: 2 };
    /// Enough draws for the ends of intervals.
    pub const INTERVALS: Self = Self { chains: 16, draws: 800, steps: 4 };
}

/// A run: its plan, and its cost (the logarithm of the metric, less is better) unless it
/// failed.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The plan.
    pub plan: Candidate,
    /// Its cost.
    pub cost: Option<f64>,
    /// Whether the cost is only the least that it would have been: the run was cut short.
    pub is_bound: bool,
}

/// What is given besides the runs.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Initial standard deviation of a cost; NaN if it was not measured.
    pub noise: f64,
    /// What is expected of levels.
    pub prior: &'a Prior,
    /// Whether the search has few runs, so that the model must have few terms.
    pub is_few: bool,
}

/// A surface that agrees with the runs.
#[derive(Clone, Debug)]
pub struct Surface {
    /// Costs of all candidates, up to a constant.
    costs: Vec<f64>,
    /// Candidates that fail.
    fails: Vec<bool>,
    /// Standard deviation of a run's cost, without disturbed runs.
    noise: f64,
    /// The weight of each earlier search.
    weights: Vec<f64>,
    /// The share of the expectations of levels that are right.
    right: f64,
}

impl Surface {
    /// The weight of each earlier search of the prior.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The share of the prior's expectations of levels that are right.
    #[must_use]
    pub fn right(&self) -> f64 {
        self.right
    }

    /// Standard deviation of a run's cost about the surface, without disturbed runs.
    #[must_use]
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// Cost of a plan, up to a constant common to all plans.
    #[must_use]
    pub fn cost(&self, plan: Candidate) -> f64 {
        self.costs.get(plan.0 as usize).copied().unwrap_or(f64::INFINITY)
    }

    /// Whether a plan fails.
    #[must_use]
    pub fn fails(&self, plan: Candidate) -> bool {
        self.fails.get(plan.0 as usize).copied().unwrap_or(true)
    }

    /// The best of the plans that work and that `of` accepts.
    pub fn best(&self, of: impl Fn(Candidate) -> bool) -> Option<Candidate> {
        (0..)
            .map(Candidate)
            .zip(self.costs.iter().zip(&self.fails))
            .filter(|(plan, (_, fails))| !**fails && of(*plan))
            .min_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b))
            .map(|(plan, _)| plan)
    }

    /// Main effect of a level: its cost minus that of level 0, averaged over the levels of all
    /// other factors.
    #[must_use]
    pub fn main_effect(&self, shape: &Shape, factor: usize, level: usize) -> f64 {
        let inner: usize = shape.levels[factor + 1..].iter().product();
        let levels = shape.levels[factor];
        let effect = |(cell, cost): (usize, &f64)| match cell / inner % levels {
            l if l == level => *cost,
            0 => -cost,
            _ => 0.0,
        };
        let cells = shape.cells();
        self.costs[..cells].iter().enumerate().map(effect).sum::<f64>()
            / (cells / levels).max(1) as f64
    }
}

/// Draws surfaces that agree with these runs, which are in the order they were made. Empty without a
/// run that worked.
#[must_use]
pub fn draws(
    shape: &Shape,
    seen: &[Seen],
    given: Given<'_>,
    effort: Effort,
    seed: u64,
) -> Vec<Surface> {
    let (plans, costs): (Vec<Candidate>, Vec<f64>) =
        seen.iter().filter_map(|s| Some((s.plan, s.cost?))).unzip();
    let bounded: Vec<bool> = seen.iter().filter(|s| s.cost.is_some()).map(|s| s.is_bound).collect();
    let failed: Vec<Candidate> = seen.iter().filter(|s| s.cost.is_none()).map(|s| s.plan).collect();
    if plans.is_empty() {
        return Vec::new();
    }
    let mut surfaces = Vec::with_capacity(effort.draws);
    for chain in 0..effort.chains {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(chain as u64 * 0x9E37_79B9));
        let mut causes = Causes::new(shape, &plans, &failed);
        let start = if chain.is_multiple_of(2) { Start::Effects } else { Start::Disturbances };
        let mut chain_state = Chain::new(shape, &plans, &costs, given, start);
        chain_state.bounded = bounded.iter().map(|bounded| bounded.then_some(0.0)).collect();
        for _ in 0..BURN_IN {
            chain_state.step(&mut rng);
            causes.step(&mut rng);
        }
        // Each chain gives the same number of draws, give or take one.
        for _ in 0..(effort.draws + effort.chains - 1 - chain) / effort.chains {
            for _ in 0..effort.steps {
                chain_state.step(&mut rng);
                causes.step(&mut rng);
            }
            let mut costs = chain_state.terms.costs(shape, &mut rng);
            chain_state.transfers.add(shape, &mut costs, &mut rng);
            surfaces.push(Surface {
                costs,
                fails: causes.fails(),
                noise: chain_state.noise.sqrt(),
                weights: chain_state.transfers.weights(),
                right: chain_state.terms.right(),
            });
        }
    }
    surfaces
}

/// The explanation of all differences with which a chain starts. With few runs it keeps it, so
/// chains of both kinds together cover both possibilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Plans differ.
    Effects,
    /// Runs are disturbed.
    Disturbances,
}

/// State of the chain.
struct Chain<'a> {
    transfers: Transfers<'a>,
    terms: Terms,
    drift: Drift,
    /// The part of each run's cost that the terms and the drift do not explain.
    rest: Vec<f64>,
    /// How far above its bound the cost of each run that was cut short is taken to be.
    bounded: Vec<Option<f64>>,
    tails: Tails,
    /// Precision of each run relative to an undisturbed run.
    weights: Vec<f64>,
    /// Variance of an undisturbed run, and its initial value.
    noise: f64,
    guess: f64,
    /// Whether there are few runs, so that it must be assumed that disturbances slow runs down.
    is_few: bool,
}

impl<'a> Chain<'a> {
    fn new(
        shape: &Shape,
        plans: &[Candidate],
        costs: &[f64],
        given: Given<'a>,
        start: Start,
    ) -> Self {
        let noise = given.noise;
        let noise = if noise.is_finite() { noise.max(1e-4) } else { USUAL_NOISE };
        let centre = crate::statistics::median(costs);
        let rest: Vec<f64> = costs.iter().map(|cost| cost - centre).collect();
        // Each run gets the precision with which its distance is one standard deviation.
        let of_disturbance = |rest: &f64| (noise / rest.abs()).min(1.0).powi(2);
        let weights = match start {
            Start::Effects => vec![1.0; costs.len()],
            Start::Disturbances => rest.iter().map(of_disturbance).collect(),
        };
        Self {
            transfers: Transfers::new(&given.prior.searches, plans),
            terms: Terms::new(shape, plans, &given),
            bounded: vec![None; costs.len()],
            drift: Drift::new(centre, costs.len(), noise, given.is_few),
            rest,
            tails: Tails::new(),
            weights,
            noise: noise * noise,
            guess: noise * noise,
            is_few: given.is_few,
        }
    }

    /// Redraws every part, given all others.
    fn step(&mut self, rng: &mut SmallRng) {
        self.step_bounded(rng);
        // First, so that the effects explain what is left by earlier searches and not the reverse.
        self.transfers.step(&mut self.rest, &self.weights, self.noise, rng);
        self.terms.step(&mut self.rest, &self.weights, self.noise, rng);
        self.drift.step(&mut self.rest, &self.weights, self.noise, rng);
        let mut squares = 0.0;
        for (rest, weight) in self.rest.iter().zip(&mut self.weights) {
            let is_faster = self.is_few && *rest < 0.0;
            *weight = self.tails.draw(rest * rest / self.noise, is_faster, rng);
            squares += *weight * rest * rest;
        }
        self.tails.step(rng);
        self.noise = variance(squares, self.rest.len(), self.guess, rng);
    }
}

impl Chain<'_> {
    /// Draws the costs of runs that were cut short, which lie above their bounds.
    fn step_bounded(&mut self, rng: &mut SmallRng) {
        for (rest, (above, weight)) in
            self.rest.iter_mut().zip(self.bounded.iter_mut().zip(&self.weights))
        {
            let Some(above) = above else { continue };
            // What the rest would be if the cost were its bound.
            let least = *rest - *above;
            let sigma = (self.noise / weight).sqrt();
            let drawn = sigma * normal_above(least / sigma, rng);
            *above = drawn - least;
            *rest = drawn;
        }
    }
}

/// A standard normal number above `least`.
///
/// Source: C. P. Robert, "Simulation of Truncated Normal Variables", Statistics and Computing 5
/// (1995).
fn normal_above(least: f64, rng: &mut SmallRng) -> f64 {
    use rand::RngExt;
    if least < 0.5 {
        // More than three in ten are above it.
        loop {
            let drawn = normal(rng);
            if drawn >= least {
                return drawn;
            }
        }
    }
    let rate = f64::midpoint(least, (least * least + 4.0).sqrt());
    loop {
        let drawn = least - (1.0 - rng.random::<f64>()).ln() / rate;
        if rng.random::<f64>() <= (-(drawn - rate).powi(2) / 2.0).exp() {
            return drawn;
        }
    }
}

/// A standard normal number.
fn normal(rng: &mut SmallRng) -> f64 {
    StandardNormal.sample(rng)
}

/// Draws an event with these log-odds.
fn happens(log_odds: f64, rng: &mut SmallRng) -> bool {
    use rand::RngExt;
    rng.random::<f64>() < 1.0 / (1.0 + (-log_odds).exp())
}

/// Draws a variance, given the sum of `count` squares and a guess that counts as 4 of them.
fn variance(squares: f64, count: usize, guess: f64, rng: &mut SmallRng) -> f64 {
    let shape = 2.0 + count as f64 / 2.0;
    let rate = 2.0 * guess + squares / 2.0;
    // Every shape above 0 gives a Gamma distribution.
    rand_distr::Gamma::new(shape, 1.0).map_or(guess, |gamma| rate / gamma.sample(rng))
}

#[cfg(test)]
mod tests;
