//! Measures how often the intervals that a search prints hold the truth.

use numapilot_tune::decide::{Basis, Claim, Decision, Findings, Settings, decide};
use numapilot_tune::evidence::{Goal, Trial};
use numapilot_tune::shape::Shape;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::surface::{Surface, World};

/// Tolerance for rounding: an interval that ends at the truth holds it.
const ROUNDING: f64 = 1e-9;

/// Number of intervals, and how many of them held the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub held: usize,
    pub of: usize,
}

impl Share {
    fn add(&mut self, truth: f64, low: f64, high: f64) {
        self.of += 1;
        self.held += usize::from(low - ROUNDING <= truth && truth <= high + ROUNDING);
    }

    fn join(&mut self, other: Self) {
        self.held += other.held;
        self.of += other.of;
    }

    /// The share in percent; 100 without intervals.
    pub fn percent(self) -> f64 {
        if self.of == 0 { 100.0 } else { 100.0 * self.held as f64 / self.of as f64 }
    }

    /// Whether it is at least 95 %, within three standard errors of the share.
    #[cfg_attr(not(test), allow(dead_code, reason = "the example prints shares only"))]
    pub fn is_enough(self) -> bool {
        let error = (0.95 * 0.05 / self.of.max(1) as f64).sqrt();
        self.percent() / 100.0 >= 0.95 - 3.0 * error
    }
}

/// The share of each kind of interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Main effects.
    pub effects: Share,
    /// Plans with figures from rounds, except the best one.
    pub rounds: Share,
    /// Plans with figures from the model.
    pub model: Share,
    /// The best plan, if one was claimed.
    pub best: Share,
    /// Searches in which a plan was claimed to be better than the default and was not.
    pub wrong: usize,
    /// Searches.
    pub searches: usize,
}

impl Coverage {
    pub fn join(&mut self, other: &Self) {
        self.effects.join(other.effects);
        self.rounds.join(other.rounds);
        self.model.join(other.model);
        self.best.join(other.best);
        self.wrong += other.wrong;
        self.searches += other.searches;
    }
}

/// Runs one search on a machine with one node, the usual case for `tune`: 6 allocators and 3
/// settings of THP, or 5, 3 and 3 levels.
pub fn search(seed: u64, world: World) -> Coverage {
    let mut rng = StdRng::seed_from_u64(seed);
    let levels = if seed.is_multiple_of(2) { vec![6, 3] } else { vec![5, 3, 3] };
    let surface = Surface::with_levels(levels, world, &mut rng);
    let settings = settings(seed, &surface.shape);
    let mut evidence: Vec<Trial> = Vec::new();
    while let Decision::Run(orders) = decide(&surface.shape, &settings, &evidence) {
        for order in orders {
            let index = evidence.len();
            evidence.push(surface.run(order, index, settings.max_runs, &mut rng));
        }
    }
    look(&surface, &Findings::new(&surface.shape, &settings, &evidence))
}

fn settings(seed: u64, shape: &Shape) -> Settings {
    Settings {
        warm_up: 1,
        seed,
        ..Settings::simple(Goal::Minimize, Settings::default_max_runs(shape))
    }
}

fn look(surface: &Surface, findings: &Findings) -> Coverage {
    let mut coverage = Coverage { searches: 1, ..Coverage::default() };
    for effect in &findings.effects {
        let truth = surface.main_effect(effect.factor, effect.level);
        coverage.effects.add(truth, effect.low, effect.high);
    }
    for finding in &findings.plans {
        let Some(figure) = finding.figure else { continue };
        let share = match (finding.claim, figure.basis) {
            (Claim::Best, _) => &mut coverage.best,
            (_, Basis::Rounds) => &mut coverage.rounds,
            (_, Basis::Model) => &mut coverage.model,
        };
        share.add(surface.difference(finding.plan), figure.low, figure.high);
    }
    let best = findings.best().map(|best| surface.difference(best.plan));
    coverage.wrong = usize::from(best.is_some_and(|difference| difference >= 0.0));
    coverage
}
