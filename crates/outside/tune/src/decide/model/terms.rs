//! The effects: of single levels, of pairs of levels, and of single plans.
//!
//! Effects of the same origin (a factor, a pair of factors) form a group: they have about the same
//! size, and about the same share of them is zero. An effect of a level may also be what the prior
//! expects of it; how often expectations are right is inferred from all levels together.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::SmallRng;
use rand_distr::{Beta, Distribution};

use super::{Given, happens, normal};
use crate::decide::prior::Expectation;
use crate::shape::{Candidate, Shape};

/// Sizes that a group's effects may have, as standard deviations of costs.
const SIZES: [f64; 9] = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28];

/// The number of these sizes that interactions may have when there are few runs. Few runs cannot rule
/// out that combinations differ much, so it must be assumed that levels differ more: interactions
/// are hardly larger than 16 %.
const FEW_SIZES: usize = 6;

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
    kind: Kind,
    expected: Option<Expectation>,
}

/// The explanation of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// There is none.
    Nil,
    /// It has a size like the others of its group.
    Own,
    /// It is as expected.
    Expected,
}

/// The effect of a group's term before its runs are looked at.
#[derive(Clone, Copy)]
struct Odds {
    /// Variance of effects of the group.
    variance: f64,
    /// Log-odds that an effect is not zero.
    active: f64,
    /// Log-odds that an expectation is right.
    right: f64,
}

struct Group {
    /// Effects that runs show.
    terms: Vec<Term>,
    /// Places of effects that no run shows, with what is expected of them.
    unseen: Vec<(Place, Option<Expectation>)>,
    size: f64,
    /// Sizes that they may have.
    sizes: &'static [f64],
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
    /// Log-odds that an expectation is right, and the numbers of right and wrong ones before.
    right: f64,
    trust: (f64, f64),
}

impl Terms {
    /// The terms of a space, all zero, for runs of these plans.
    pub fn new(shape: &Shape, plans: &[Candidate], given: &Given<'_>) -> Self {
        let levels = |f: usize| (0..shape.levels[f]).map(move |level| (f, level));
        // With few runs, what a setting does with the default level of another is its main effect.
        let first = usize::from(given.is_few);
        let factors = 0..shape.levels.len();
        let mut groups: Vec<(Vec<Place>, (f64, f64))> = Vec::new();
        for f in factors.clone() {
            groups.push((levels(f).map(|(f, l)| Place::Level(f, l)).collect(), prior::MAIN));
        }
        for f in factors.clone() {
            for g in f + 1..factors.end {
                let others = || levels(g).skip(first);
                let pairs =
                    levels(f).skip(first).flat_map(|a| others().map(move |b| Place::Pair(a, b)));
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
            let expected = |place: Place| match place {
                Place::Level(factor, level) => given.prior.of(factor, level),
                Place::Pair(..) | Place::Plan(_) => None,
            };
            let term = |(place, plans)| Term {
                place,
                plans,
                effect: 0.0,
                kind: Kind::Nil,
                expected: expected(place),
            };
            Group {
                terms: seen.into_iter().map(term).collect(),
                unseen: unseen.into_iter().map(|(place, _)| (place, expected(place))).collect(),
                size: 0.08,
                sizes: match prior {
                    prior::PAIR | prior::OWN if given.is_few => &SIZES[..FEW_SIZES],
                    _ => &SIZES,
                },
                odds: (prior.0 / prior.1).ln(),
                prior,
            }
        };
        let index = |plan: &Candidate| ran.partition_point(|(known, _)| known < plan);
        Self {
            groups: groups.into_iter().map(group).collect(),
            plan_of: plans.iter().map(index).collect(),
            sums: vec![Sum::default(); ran.len()],
            right: (given.prior.trust.0 / given.prior.trust.1).ln(),
            trust: given.prior.trust,
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
            let odds = group.odds(self.right);
            for term in &mut group.terms {
                term.step(odds, &mut self.sums, noise, rng);
            }
            group.step(rng);
        }
        self.step_trust(rng);
        for (&plan, rest) in self.plan_of.iter().zip(rest) {
            *rest -= self.sums[plan].effect;
        }
    }

    /// The share of expectations that are right.
    pub fn right(&self) -> f64 {
        1.0 / (1.0 + (-self.right).exp())
    }

    /// Draws the share of expectations that are right.
    fn step_trust(&mut self, rng: &mut SmallRng) {
        let terms = self.groups.iter().flat_map(|group| &group.terms);
        let expected = terms.filter(|term| term.expected.is_some());
        let (right, wrong): (Vec<&Term>, Vec<&Term>) =
            expected.partition(|term| term.kind == Kind::Expected);
        if right.len() + wrong.len() > 0 {
            let trust = (self.trust.0 + right.len() as f64, self.trust.1 + wrong.len() as f64);
            self.right = log_odds(trust, rng).unwrap_or(self.right);
        }
    }

    /// The costs of all candidates. Effects that no run shows are drawn.
    pub fn costs(&self, shape: &Shape, rng: &mut SmallRng) -> Vec<f64> {
        let mut costs = vec![0.0; shape.cells() + shape.extras];
        for group in &self.groups {
            for term in group.terms.iter().filter(|term| term.kind != Kind::Nil) {
                term.place.add(term.effect, shape, &mut costs);
            }
            for (place, expected) in &group.unseen {
                let expected = expected.filter(|_| happens(self.right, rng));
                if let Some(expected) = expected {
                    let effect = expected.cost + expected.variance().sqrt() * normal(rng);
                    place.add(effect, shape, &mut costs);
                } else if happens(group.odds, rng) {
                    place.add(group.size * normal(rng), shape, &mut costs);
                }
            }
        }
        costs
    }
}

impl Term {
    fn step(&mut self, odds: Odds, sums: &mut [Sum], noise: f64, rng: &mut SmallRng) {
        let (mut precision, mut sum) = (0.0, 0.0);
        for &plan in &self.plans {
            precision += sums[plan].weight;
            sum += sums[plan].rest;
        }
        let (precision, sum) = (precision / noise, (sum + precision * self.effect) / noise);
        let Odds { variance, .. } = odds;
        let shrink = 1.0 + precision * variance;
        // The ratio of the likelihoods of the runs with and without an effect of its own.
        let gain = (sum * sum * variance / shrink - shrink.ln()) / 2.0;
        let before = self.effect;
        let is_expected = self.expected.filter(|expected| {
            let of_group = ln_sum(0.0, odds.active + gain) - ln_sum(0.0, odds.active);
            happens(odds.right + gain_of(*expected, precision, sum) - of_group, rng)
        });
        (self.kind, self.effect) = if let Some(expected) = is_expected {
            let spread = (precision + expected.variance().recip()).recip();
            let centre = (sum + expected.cost / expected.variance()) * spread;
            (Kind::Expected, centre + spread.sqrt() * normal(rng))
        } else if happens(odds.active + gain, rng) {
            let spread = variance / shrink;
            (Kind::Own, sum * spread + spread.sqrt() * normal(rng))
        } else {
            (Kind::Nil, 0.0)
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

/// The logarithm of the ratio of the likelihoods of the runs with an effect as expected and without
/// any.
fn gain_of(expected: Expectation, precision: f64, sum: f64) -> f64 {
    let variance = expected.variance();
    let all = sum + expected.cost / variance;
    (all * all / (precision + variance.recip())
        - expected.cost * expected.cost / variance
        - (1.0 + precision * variance).ln())
        / 2.0
}

/// The logarithm of the sum of two exponentials.
fn ln_sum(a: f64, b: f64) -> f64 {
    a.max(b) + (-(a - b).abs()).exp().ln_1p()
}

/// Draws the log-odds of an event that was seen this often, and its opposite.
fn log_odds(seen: (f64, f64), rng: &mut SmallRng) -> Option<f64> {
    let share: f64 = Beta::new(seen.0, seen.1).ok()?.sample(rng);
    let share = share.clamp(1e-4, 1.0 - 1e-4);
    Some((share / (1.0 - share)).ln())
}

impl Group {
    fn odds(&self, right: f64) -> Odds {
        Odds { variance: self.size * self.size, active: self.odds, right }
    }

    /// Draws the size and the share of effects that are not zero.
    fn step(&mut self, rng: &mut SmallRng) {
        let of = |kind: Kind| self.terms.iter().filter(move |term| term.kind == kind);
        let active = || of(Kind::Own);
        let count = active().count() as f64;
        let squares: f64 = active().map(|term| term.effect * term.effect).sum();
        let likelihood = |size: &f64| -count * size.ln() - squares / (2.0 * size * size);
        let likelihoods: Vec<f64> = self.sizes.iter().map(likelihood).collect();
        let most = likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let chances: Vec<f64> = likelihoods.iter().map(|l| (l - most).exp()).collect();
        let mut rest = rng.random::<f64>() * chances.iter().sum::<f64>();
        for (&size, chance) in self.sizes.iter().zip(chances) {
            self.size = size;
            rest -= chance;
            if rest < 0.0 {
                break;
            }
        }
        let nil = of(Kind::Nil).count() as f64;
        self.odds = log_odds((self.prior.0 + count, self.prior.1 + nil), rng).unwrap_or(self.odds);
    }
}
