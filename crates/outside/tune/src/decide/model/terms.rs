//! The effects: of single levels, of pairs of levels, and of single plans.
//!
//! Effects of the same origin (a factor, a pair of factors) form a group: they have about the same
//! size, and about the same share of them is zero.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::SmallRng;
use rand_distr::{Beta, Distribution};

use super::{happens, normal};
use crate::shape::{Candidate, Shape};

/// Sizes that a group's effects may have, as standard deviations of costs.
const SIZES: [f64; 9] = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28];

/// Priors for the share of effects that are not zero: the number that were not, and the number that
/// were.
mod prior {
    /// Nearly every level has an effect.
    pub const MAIN: (f64, f64) = (1.0, 0.2);
    /// Most pairs of factors do not interact; if they do, many of their levels do.
    pub const PAIR: (f64, f64) = (0.3, 0.9);
    /// An interaction of three factors is rare.
    pub const OWN: (f64, f64) = (0.1, 4.0);
    /// A plan outside the grid has no other term.
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

    /// Adds an effect to the costs of the plans to which it applies.
    fn add(self, effect: f64, shape: &Shape, costs: &mut [f64]) {
        // Cells are in blocks: the last factor's levels are adjacent, the first factor's are
        // farthest apart.
        let inner = |f: usize| shape.levels[f + 1..].iter().product::<usize>();
        let raise = |costs: &mut [f64]| costs.iter_mut().for_each(|cost| *cost += effect);
        let of_level = |costs: &mut [f64], (f, level): (usize, usize), act: &dyn Fn(&mut [f64])| {
            let inner = inner(f);
            for block in costs.chunks_exact_mut(inner * shape.levels[f]) {
                act(&mut block[level * inner..][..inner]);
            }
        };
        let cells = ..shape.cells();
        match self {
            Self::Plan(plan) => costs[plan.0 as usize] += effect,
            Self::Level(f, level) => of_level(&mut costs[cells], (f, level), &raise),
            Self::Pair(a, b) => {
                of_level(&mut costs[cells], a, &|costs| of_level(costs, b, &raise));
            }
        }
    }
}

struct Term {
    place: Place,
    /// The plans that ran to which it applies.
    plans: Vec<usize>,
    effect: f64,
    is_nil: bool,
}

struct Group {
    /// Effects that runs show.
    terms: Vec<Term>,
    /// Places of effects that no run shows.
    unseen: Vec<Place>,
    size: f64,
    /// Log-odds that an effect is not zero.
    odds: f64,
    prior: (f64, f64),
}

/// Sums over the runs of one plan.
#[derive(Clone, Copy, Default)]
struct Sum {
    /// Precision relative to an undisturbed run.
    weight: f64,
    /// The weighted unexplained part of the costs.
    rest: f64,
    /// The growth of the effects that apply.
    effect: f64,
}

/// All effects.
pub struct Terms {
    groups: Vec<Group>,
    /// The plan of each run, as an index into `sums`.
    plan_of: Vec<usize>,
    /// Sums for each plan that ran.
    sums: Vec<Sum>,
}

impl Terms {
    /// The terms of a space, all zero, for runs of these plans.
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
        let mut runs: BTreeMap<Candidate, usize> = BTreeMap::new();
        for &plan in plans {
            *runs.entry(plan).or_default() += 1;
        }
        let is_cell = |plan: Candidate| (plan.0 as usize) < shape.cells();
        let again = runs.iter().filter(|&(&plan, &count)| count > 1 && is_cell(plan));
        groups.push((again.map(|(&plan, _)| Place::Plan(plan)).collect(), prior::OWN));
        groups.push((shape.extras().map(Place::Plan).collect(), prior::EXTRA));

        let ran: Vec<(Candidate, Option<Vec<usize>>)> =
            runs.keys().map(|&plan| (plan, shape.coordinates(plan))).collect();
        let group = |(places, prior): (Vec<Place>, (f64, f64))| {
            let plans = |place: Place| -> Vec<usize> {
                let applies = |i: &usize| place.includes(ran[*i].0, ran[*i].1.as_deref());
                (0..ran.len()).filter(applies).collect()
            };
            let (seen, unseen): (Vec<_>, Vec<_>) =
                places.into_iter().map(|p| (p, plans(p))).partition(|(_, plans)| !plans.is_empty());
            let term = |(place, plans)| Term { place, plans, effect: 0.0, is_nil: true };
            Group {
                terms: seen.into_iter().map(term).collect(),
                unseen: unseen.into_iter().map(|(place, _)| place).collect(),
                size: 0.08,
                odds: (prior.0 / prior.1).ln(),
                prior,
            }
        };
        let index = |plan: &Candidate| ran.partition_point(|(known, _)| known < plan);
        Self {
            groups: groups.into_iter().map(group).collect(),
            plan_of: plans.iter().map(index).collect(),
            sums: vec![Sum::default(); ran.len()],
        }
    }

    /// Redraws all effects. `rest` is the part of the costs that neither they nor the other parts
    /// explain.
    pub fn step(&mut self, rest: &mut [f64], weights: &[f64], noise: f64, rng: &mut SmallRng) {
        self.sums.fill(Sum::default());
        for ((&plan, rest), weight) in self.plan_of.iter().zip(&*rest).zip(weights) {
            self.sums[plan].weight += weight;
            self.sums[plan].rest += weight * rest;
        }
        for group in &mut self.groups {
            let variance = group.size * group.size;
            for term in &mut group.terms {
                term.step(variance, group.odds, &mut self.sums, noise, rng);
            }
            group.step(rng);
        }
        for (&plan, rest) in self.plan_of.iter().zip(rest) {
            *rest -= self.sums[plan].effect;
        }
    }

    /// The costs of all candidates. Effects that no run shows are drawn.
    pub fn costs(&self, shape: &Shape, rng: &mut SmallRng) -> Vec<f64> {
        let mut costs = vec![0.0; shape.cells() + shape.extras];
        for group in &self.groups {
            for term in group.terms.iter().filter(|term| !term.is_nil) {
                term.place.add(term.effect, shape, &mut costs);
            }
            for place in &group.unseen {
                if happens(group.odds, rng) {
                    place.add(group.size * normal(rng), shape, &mut costs);
                }
            }
        }
        costs
    }
}

impl Term {
    fn step(&mut self, variance: f64, odds: f64, sums: &mut [Sum], noise: f64, rng: &mut SmallRng) {
        let (mut precision, mut sum) = (0.0, 0.0);
        for &plan in &self.plans {
            precision += sums[plan].weight;
            sum += sums[plan].rest;
        }
        let (precision, sum) = (precision / noise, (sum + precision * self.effect) / noise);
        let shrink = 1.0 + precision * variance;
        // The ratio of the likelihoods of the runs with and without the effect.
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
            let change = self.effect - before;
            for &plan in &self.plans {
                sums[plan].rest -= sums[plan].weight * change;
                sums[plan].effect += change;
            }
        }
    }
}

impl Group {
    /// Draws the size and the share of effects that are not zero.
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
