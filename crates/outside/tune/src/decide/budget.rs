//! How many runs a search may make, and how the phases share them.
//!
//! The shares were chosen with the simulator in `tests/simulator`.

use super::{Settings, Stop};
use crate::evidence::{Phase, Trial};
use crate::shape::Shape;

/// Runs of one screening or refinement block.
pub const BLOCK: usize = 8;
/// Spaces of at most this many candidates are raced without screening.
const SMALL: usize = 9;
/// Plans in the race of a large space, the default among them.
const RACERS: usize = 5;
/// Rounds that a race, and a final, must have room for.
const LEAST_ROUNDS: usize = 3;

/// Whether a space is screened before plans are raced.
#[must_use]
pub fn is_large(shape: &Shape) -> bool {
    shape.candidates().count() > SMALL
}

impl Settings {
    /// Runs that a space gets unless the user says otherwise: a fifth more than it has plans, and
    /// never fewer than it takes to tell a handful of them apart.
    #[must_use]
    pub fn default_max_runs(shape: &Shape) -> usize {
        (shape.candidates().count() * 6 / 5).clamp(80, 750)
    }

    /// The least `max_runs` with which a search can come to an end.
    #[must_use]
    pub fn least_runs(&self, shape: &Shape) -> usize {
        let (screening, racers) = if is_large(shape) {
            (2 * BLOCK, 3 + shape.extras)
        } else {
            (0, shape.candidates().count())
        };
        self.warm_up + self.noise_runs + screening + (racers + 2) * LEAST_ROUNDS
    }

    /// Runs at most, with the time limit turned into runs by what runs took so far.
    #[must_use]
    pub fn budget(&self, evidence: &[Trial]) -> usize {
        let Some(limit) = self.max_seconds else { return self.max_runs };
        let spent: f64 = evidence.iter().map(|t| t.seconds).sum();
        if evidence.is_empty() || spent <= 0.0 {
            return self.max_runs;
        }
        let per_run = spent / evidence.len() as f64;
        // The conversion saturates: 0 below, far above any number of runs at the top.
        self.max_runs.min(evidence.len() + ((limit - spent) / per_run) as usize)
    }
}

/// A budget divided.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Runs at most, everything included.
    pub total: usize,
    /// Why the search ends when they are used up.
    pub exhausted: Stop,
    /// Runs of the screening design.
    pub screen: usize,
    /// Runs of the refinement.
    pub refine: usize,
    /// Runs kept for the final.
    pub last: usize,
    /// Plans that start in the race.
    pub racers: usize,
}

impl Shares {
    /// Divides the budget as it looks from this evidence.
    pub fn new(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Self {
        let total = settings.budget(evidence);
        let runs = total.saturating_sub(settings.warm_up + settings.noise_runs);
        let blocks = |share: f64| (runs as f64 * share / BLOCK as f64).round() as usize * BLOCK;
        let (screen, refine) =
            if is_large(shape) { (blocks(0.2).max(BLOCK), blocks(0.4)) } else { (0, 0) };
        let last = (runs * 15 / 100).max(2 * LEAST_ROUNDS);
        let race = runs.saturating_sub(screen + refine + last);
        Self {
            total,
            exhausted: if total < settings.max_runs { Stop::MaxTime } else { Stop::MaxRuns },
            screen,
            refine,
            last,
            racers: (race / LEAST_ROUNDS).clamp(3, RACERS) + shape.extras,
        }
    }

    /// Runs left of the whole budget.
    pub fn left(&self, evidence: &[Trial]) -> usize {
        self.total.saturating_sub(evidence.len())
    }

    /// Runs left to the race.
    pub fn left_to_race(&self, evidence: &[Trial]) -> usize {
        let finals = evidence.iter().filter(|t| t.order.phase == Phase::Final).count();
        self.left(evidence).saturating_sub(self.last.saturating_sub(finals))
    }
}
