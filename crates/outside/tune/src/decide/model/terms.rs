//! The effects: of single levels, of pairs of levels, and of single plans.
//!
//! Effects of the same origin (a factor, a pair of factors) form a group: they are of about
//! the same size, and about the same share of them is nil.

use rand::RngExt;
use rand::rngs::SmallRng;
use rand_distr::{Beta, Distribution};

use super::{happens, normal};
use crate::shape::{Candidate, Shape};

/// Sizes that a group's effects may have, as standard deviations of costs.
const SIZES: [f64; 9] = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28];

/// What is known of the share of effects that are not nil before anything is measured: so
/// many that were not, and so many that were.
mod prior {
    /// Nearly every level does something.
    pub const MAIN: (f64, f64) = (1.0, 0.2);
    /// Most pairs of factors do not interact; where they do, many of their levels do.
    pub const PAIR: (f64, f64) = (0.3, 0.9);
    /// Two factors hardly ever leave something to be explained by three.
    pub const OWN: (f64, f64) = (0.1, 4.0);
    /// Nothing else explains a plan outside the grid.
    pub const EXTRA: (f64, f64) = (100.0, 0.01);
}

/// Where an effect applies.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A level of a factor.
    Level(usize, usize),
    /// A level of one factor with a level of another.
    Pair((usize, usize), (usize, usize)),
    /// One plan.
    Plan(Candidate),
}

impl Place {
    fn includes(self, plan: Candidate, point: Option<&[usize]>) -> bool {
        match (self, point) {
            (Self::Plan(own), _) => own == plan,
            (Self::Level(f, level), Some(point)) => point[f] == level,
            (Self::Pair((f, a), (g, b)), Some(point)) => point[f] == a && point[g] == b,
            (_, None) => false,
        }
    }
}

struct Term {
    place: Place,
    /// Runs it applies to.
    runs: Vec<usize>,
    effect: f64,
    is_nil: bool,
}

struct Group {
    terms: Vec<Term>,
    size: f64,
    /// Log-odds that an effect is not nil.
    odds: f64,
    prior: (f64, f64),
}

/// All effects.
pub struct Terms {
    groups: Vec<Group>,
}

impl Terms {
    /// The terms of a space, all nil, and the runs (of these plans) they apply to.
    pub fn new(shape: &Shape, plans: &[Candidate]) -> Self {
        let levels = |f: usize| (0..shape.levels[f]).map(move |level| (f, level));
        let factors = 0..shape.levels.len();
        let mut groups: Vec<(Vec<Place>, (f64, f64))> = Vec::new();
        for f in factors.clone() {
            groups.push((levels(f).map(|(f, l)| Place::Level(f, l)).collect(), prior::MAIN));
        }
        for f in factors.clone() {
            for g in f + 1..factors.end {
                let pairs = levels(f).flat_map(|a| levels(g).map(move |b| Place::Pair(a, b)));
                groups.push((pairs.collect(), prior::PAIR));
            }
        }
        let mut ran: Vec<Candidate> = plans.to_vec();
        ran.sort_unstable();
        let again: Vec<Place> = ran
            .chunk_by(|a, b| a == b)
            .filter(|runs| runs.len() > 1 && shape.coordinates(runs[0]).is_some())
            .map(|runs| Place::Plan(runs[0]))
            .collect();
        groups.push((again, prior::OWN));
        groups.push((shape.extras().map(Place::Plan).collect(), prior::EXTRA));

        let points: Vec<Option<Vec<usize>>> =
            plans.iter().map(|&plan| shape.coordinates(plan)).collect();
        let term = |place: Place| {
            let applies = |i: &usize| place.includes(plans[*i], points[*i].as_deref());
            let runs = (0..plans.len()).filter(applies).collect();
            Term { place, runs, effect: 0.0, is_nil: true }
        };
        let group = |(places, prior): (Vec<Place>, (f64, f64))| Group {
            terms: places.into_iter().map(term).collect(),
            size: 0.08,
            odds: (prior.0 / prior.1).ln(),
            prior,
        };
        Self { groups: groups.into_iter().map(group).collect() }
    }

    /// Draws all effects anew; `rest` is what they and all else leave of the costs.
    pub fn step(&mut self, rest: &mut [f64], weights: &[f64], noise: f64, rng: &mut SmallRng) {
        for group in &mut self.groups {
            let variance = group.size * group.size;
            for term in &mut group.terms {
                term.step(variance, group.odds, rest, weights, noise, rng);
            }
            group.step(rng);
        }
    }

    /// Costs of all candidates.
    pub fn costs(&self, shape: &Shape) -> Vec<f64> {
        let factors = shape.levels.len();
        let mut main: Vec<Vec<f64>> = shape.levels.iter().map(|&l| vec![0.0; l]).collect();
        // By both factors, then levels of the first by levels of the second.
        let mut pair: Vec<Vec<f64>> = (0..factors * factors)
            .map(|i| vec![0.0; shape.levels[i / factors] * shape.levels[i % factors]])
            .collect();
        let mut costs = vec![0.0; shape.cells() + shape.extras];
        for term in self.groups.iter().flat_map(|group| &group.terms) {
            match term.place {
                Place::Level(f, level) => main[f][level] = term.effect,
                Place::Pair((f, a), (g, b)) => {
                    pair[f * factors + g][a * shape.levels[g] + b] = term.effect;
                }
                Place::Plan(plan) => costs[plan.0 as usize] = term.effect,
            }
        }
        let mut point = vec![0; factors];
        for cost in &mut costs[..shape.cells()] {
            for (f, &level) in point.iter().enumerate() {
                *cost += main[f][level];
                for (g, &other) in point.iter().enumerate().skip(f + 1) {
                    *cost += pair[f * factors + g][level * shape.levels[g] + other];
                }
            }
            // The next cell, the last factor fastest.
            for (level, &levels) in point.iter_mut().zip(&shape.levels).rev() {
                *level = (*level + 1) % levels;
                if *level != 0 {
                    break;
                }
            }
        }
        costs
    }
}

impl Term {
    fn step(
        &mut self,
        variance: f64,
        odds: f64,
        rest: &mut [f64],
        weights: &[f64],
        noise: f64,
        rng: &mut SmallRng,
    ) {
        let (mut precision, mut sum) = (0.0, 0.0);
        for &run in &self.runs {
            precision += weights[run];
            sum += weights[run] * (rest[run] + self.effect);
        }
        let (precision, sum) = (precision / noise, sum / noise);
        let shrink = 1.0 + precision * variance;
        // The likelihood of the runs with the effect over that without.
        let gain = (sum * sum * variance / shrink - shrink.ln()) / 2.0;
        self.is_nil = !happens(odds + gain, rng);
        let before = self.effect;
        self.effect = if self.is_nil {
            0.0
        } else {
            let spread = variance / shrink;
            sum * spread + spread.sqrt() * normal(rng)
        };
        if self.effect != before {
            for &run in &self.runs {
                rest[run] += before - self.effect;
            }
        }
    }
}

impl Group {
    /// Draws the size and the share of effects that are not nil.
    fn step(&mut self, rng: &mut SmallRng) {
        let active = || self.terms.iter().filter(|term| !term.is_nil);
        let count = active().count() as f64;
        let squares: f64 = active().map(|term| term.effect * term.effect).sum();
        let likelihoods = SIZES.map(|size| -count * size.ln() - squares / (2.0 * size * size));
        let most = likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let chances = likelihoods.map(|l| (l - most).exp());
        let mut rest = rng.random::<f64>() * chances.iter().sum::<f64>();
        for (size, chance) in SIZES.into_iter().zip(chances) {
            self.size = size;
            rest -= chance;
            if rest < 0.0 {
                break;
            }
        }
        let nil = self.terms.len() as f64 - count;
        if let Ok(beta) = Beta::new(self.prior.0 + count, self.prior.1 + nil) {
            let share: f64 = beta.sample(rng);
            let share = share.clamp(1e-4, 1.0 - 1e-4);
            self.odds = (share / (1.0 - share)).ln();
        }
    }
}
