//! Searches that begin with what other searches found, on programs that are related to the present
//! one or not, or with what one observed run lets expect.

use numapilot_tune::decide::{
    Decision, Earlier, Expectation, Findings, Prior, Settings, decide, history, is_economical,
};
use numapilot_tune::evidence::{Goal, Phase, Trial};
use numapilot_tune::shape::Shape;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::surface::{Surface, World};

/// What the earlier programs have in common with the present one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Histories {
    /// There are none.
    None,
    /// This share of the logarithm of the time of each plan is that of the present program, and the
    /// rest is of another one: 1 means the same program, 0 an unrelated one, less than 0 that what
    /// helps the one hurts the other.
    Alike(f64),
    /// There are none, but an observed run. It knows which factors matter and bounds their gain, and
    /// expects half of the bound of one level of each, which is the best one with this chance.
    Advice(f64),
}

/// Earlier searches.
const SEARCHES: u64 = 3;

/// The results of searches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub searches: usize,
    pub runs: usize,
    /// Runs before the race.
    pub before: usize,
    /// Searches whose result, the default if nothing is shown, takes at most 3 % longer than the
    /// best plan.
    pub good: usize,
    /// The same for the plan named.
    pub named: usize,
    /// Sum of the logarithms of its time divided by the best plan's, each at most that of 2.
    #[cfg_attr(test, allow(dead_code, reason = "the example prints it"))]
    pub loss: f64,
    /// Searches that called a plan better than the default.
    pub claims: usize,
    /// Of these, those in which it is not.
    pub wrong: usize,
}

impl Tally {
    pub fn join(&mut self, other: Self) {
        self.searches += other.searches;
        self.runs += other.runs;
        self.before += other.before;
        self.good += other.good;
        self.named += other.named;
        self.loss += other.loss;
        self.claims += other.claims;
        self.wrong += other.wrong;
    }
}

/// A search with at most this share of the usual runs.
pub fn search(seed: u64, world: World, prior: Prior, share: f64) -> Tally {
    let surface = Surface::random(seed, world);
    let usual = Settings::default_max_runs(&surface.shape);
    let runs = (usual as f64 * share) as usize;
    let settings = Settings { prior, ..settings(&surface.shape, seed, runs) };
    let evidence = run(&surface, &settings, !seed);
    let findings = Findings::glance(&surface.shape, &settings, &evidence);
    let is_close = |plan| surface.regret(plan) <= crate::TOLERANCE.ln_1p();
    let best = findings.best().map_or(numapilot_tune::shape::DEFAULT, |best| best.plan);
    let is_before = |t: &&Trial| !matches!(t.order.phase, Phase::Race | Phase::Final);
    Tally {
        searches: 1,
        runs: evidence.len(),
        before: evidence.iter().filter(is_before).count(),
        good: usize::from(is_close(best)),
        named: usize::from(is_close(findings.named())),
        loss: surface.regret(findings.named()).min(std::f64::consts::LN_2),
        claims: usize::from(findings.best().is_some()),
        wrong: usize::from(findings.best().is_some_and(|b| surface.difference(b.plan) >= 0.0)),
    }
}

/// The settings of `tune --max-runs`: a search with few runs has no warm-up and one run for the noise.
fn settings(shape: &Shape, seed: u64, max_runs: usize) -> Settings {
    let settings = Settings { warm_up: 1, seed, ..Settings::simple(Goal::Minimize, max_runs) };
    if is_economical(shape, &settings) {
        return Settings { warm_up: 0, noise_runs: 1, ..settings };
    }
    settings
}

/// Makes all runs of a search.
fn run(surface: &Surface, settings: &Settings, seed: u64) -> Vec<Trial> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut evidence: Vec<Trial> = Vec::new();
    while let Decision::Run(orders) = decide(&surface.shape, settings, &evidence) {
        for order in orders {
            evidence.push(surface.run(order, evidence.len(), settings.max_runs, &mut rng));
        }
    }
    evidence
}

/// What is expected before the first run.
pub fn prior(seed: u64, world: World, histories: Histories) -> Prior {
    let surface = Surface::random(seed, world);
    match histories {
        Histories::None => Prior::default(),
        Histories::Alike(share) => earlier_searches(&surface, seed, world, share),
        Histories::Advice(chance) => advice(&surface, chance, seed),
    }
}

/// The expectations of `numapilot advise`: half of the bound for the level to try first, nothing for
/// the others, and none gains more than the bound with 95 % confidence.
fn advice(surface: &Surface, chance: f64, seed: u64) -> Prior {
    let mut rng = StdRng::seed_from_u64(seed ^ 0xAD);
    let factors = surface.shape.levels.iter().enumerate();
    let of_factor = |(factor, &levels): (usize, &usize)| {
        let effects: Vec<f64> = (1..levels).map(|l| surface.level_effect(factor, l)).collect();
        let most = effects.iter().filter(|effect| effect.is_finite());
        let most = most.map(|effect| effect.abs()).fold(0.0, f64::max);
        let best = effects.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let right = best.filter(|_| rng.random_bool(chance)).map(|(level, _)| level);
        let first = right.unwrap_or_else(|| rng.random_range(0..levels - 1));
        // The bound is larger than the gain, because it counts what no level can save.
        let bound = (most * rng.random_range(1.0..3.0)).min(0.9);
        let (gain, deviation) = match most < 0.01 {
            true => (0.0, 0.01),
            false => (bound.min(0.5) / 2.0, (-(1.0 - bound).ln() / 2.0).clamp(0.01, 0.35)),
        };
        let expectation = |level: usize| {
            let cost = if level == first { (1.0 - gain).ln() } else { 0.0 };
            (effects[level].is_finite()).then_some(Expectation { cost, deviation })
        };
        [None].into_iter().chain((0..levels - 1).map(expectation)).collect()
    };
    Prior { levels: factors.map(of_factor).collect(), ..Prior::default() }
}

/// What earlier searches predict.
fn earlier_searches(surface: &Surface, seed: u64, world: World, share: f64) -> Prior {
    let earlier = |index: u64| {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(index);
        let other = surface.alike(share, world, seed);
        let settings = settings(&other.shape, seed, Settings::default_max_runs(&other.shape));
        let evidence = run(&other, &settings, !seed);
        let (costs, deviations) = history::prediction(&other.shape, &settings, &evidence)?;
        Some(Earlier { name: index.to_string(), costs, deviations })
    };
    Prior { searches: (0..SEARCHES).filter_map(earlier).collect(), ..Prior::default() }
}
