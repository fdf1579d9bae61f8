//! How many runs a search may make, and how the phases share them.
//!
//! The shares were chosen with the simulator in `tests/simulator`.

use super::race::LEAST_ROUNDS;
use super::{Settings, Stop};
use crate::evidence::{Phase, Trial};
use crate::shape::Shape;

/// Runs of one screening block, and of a refinement block at least.
pub const BLOCK: usize = 8;
/// Spaces of at most this many candidates are raced without screening.
const SMALL: usize = 9;
/// Plans in the race of a large space at most, the default among them.
const RACERS: usize = 4;
/// Runs that a space gets for each level of each factor.
const RUNS_PER_LEVEL: usize = 12;
/// Runs for each level of each factor that the screening and the refinement need, before the
/// final gets more than its least share.
const LEAST_PER_LEVEL: usize = 4;
/// Standard errors that a difference must be from 0 to be shown.
const SHOWN: f64 = 5.5;

/// Whether a space is screened before plans are raced.
#[must_use]
pub fn is_large(shape: &Shape) -> bool {
    shape.candidates().count() > SMALL
}

/// What there is to learn about a space: levels, and plans outside the grid.
fn learnt(shape: &Shape) -> usize {
    shape.levels.iter().sum::<usize>() + shape.extras
}

impl Settings {
    /// Runs that a space gets unless the user says otherwise: by what there is to learn, which
    /// grows with the levels and not with their combinations; never fewer than it takes to
    /// tell a handful of plans apart.
    #[must_use]
    pub fn default_max_runs(shape: &Shape) -> usize {
        (learnt(shape) * RUNS_PER_LEVEL).clamp(80, 750)
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
    /// Runs kept for the final.
    pub last: usize,
    /// Plans that start in the race.
    pub racers: usize,
    /// Runs that the refinement leaves to the race and the final at most.
    most_kept: usize,
    /// Runs to divide: all but those that measure the noise.
    runs: usize,
}

impl Shares {
    /// Divides the budget as it looks from this evidence.
    pub fn new(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Self {
        let total = settings.budget(evidence);
        let runs = total.saturating_sub(settings.warm_up + settings.noise_runs);
        let is_before = |t: &&Trial| t.order.phase != Phase::Race;
        let rest = total.saturating_sub(evidence.iter().take_while(is_before).count());
        let blocks = (runs as f64 * 0.15 / BLOCK as f64).round() as usize;
        let racers = (rest / LEAST_ROUNDS).clamp(3, RACERS) + shape.extras;
        let (screen, last) = if is_large(shape) {
            (blocks.max(1) * BLOCK, (rest / 2).min(rest.saturating_sub(racers * LEAST_ROUNDS)))
        } else {
            (0, runs * 15 / 100)
        };
        Self {
            total,
            exhausted: if total < settings.max_runs { Stop::MaxTime } else { Stop::MaxRuns },
            screen,
            last: last.max(2 * LEAST_ROUNDS),
            racers,
            most_kept: runs
                .saturating_sub(LEAST_PER_LEVEL * learnt(shape))
                .clamp(runs * 22 / 100, runs * 60 / 100),
            runs,
        }
    }

    /// Runs left of the whole budget.
    pub fn left(&self, evidence: &[Trial]) -> usize {
        self.total.saturating_sub(evidence.len())
    }

    /// Runs left to the refinement, when the best plan is expected to gain that much over the
    /// default, as costs, and this is the standard deviation of a run: the race and the final
    /// need the more rounds the smaller the gain.
    pub fn left_to_refine(&self, evidence: &[Trial], gain: f64, noise: f64) -> usize {
        // The conversion saturates: 0 below, far above any number of runs at the top.
        let rounds = (2.0 * (SHOWN * noise / gain.max(0.0)).powi(2)) as usize;
        let kept = rounds.saturating_mul(2).clamp(self.runs * 22 / 100, self.most_kept);
        self.left(evidence).saturating_sub(kept)
    }

    /// Runs of one refinement block: what they tell is made use of some ten times.
    pub fn refinement_block(&self) -> usize {
        BLOCK.max(self.runs / 12)
    }

    /// Runs left to the race.
    pub fn left_to_race(&self, evidence: &[Trial]) -> usize {
        let finals = evidence.iter().filter(|t| t.order.phase == Phase::Final).count();
        self.left(evidence).saturating_sub(self.last.saturating_sub(finals))
    }
}
