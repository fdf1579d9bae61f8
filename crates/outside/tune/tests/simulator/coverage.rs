//! How often the intervals that a search prints hold the truth.

use numapilot_tune::decide::{Basis, Claim, Decision, Findings, Settings, decide};
use numapilot_tune::evidence::{Goal, Trial};
use numapilot_tune::shape::Shape;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::surface::{Surface, World};

/// Rounding: an interval that ends at the truth holds it.
const ROUNDING: f64 = 1e-9;

/// Intervals looked at, and how many of them held the truth.
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

    /// In percent; of no interval none is wrong.
    pub fn percent(self) -> f64 {
        if self.of == 0 { 100.0 } else { 100.0 * self.held as f64 / self.of as f64 }
    }

    /// Whether it is no less than 95 %, as far as so many intervals can tell: three standard
    /// errors of a share.
    #[cfg_attr(not(test), allow(dead_code, reason = "the example prints shares only"))]
    pub fn is_enough(self) -> bool {
        let error = (0.95 * 0.05 / self.of.max(1) as f64).sqrt();
        self.percent() / 100.0 >= 0.95 - 3.0 * error
    }
}

/// Shares of the kinds of intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Main effects.
    pub effects: Share,
    /// Plans whose figures are of rounds, the best one aside.
    pub rounds: Share,
    /// Plans whose figures are the model's.
    pub model: Share,
    /// The best plan, where one was claimed.
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

/// One search on a machine with one node, as most that `tune` is tried on: 6 allocators and 3
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
