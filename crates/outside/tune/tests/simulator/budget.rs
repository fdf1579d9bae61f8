//! Searches with few runs, on machines with one node and with several.

use numapilot_tune::decide::{Decision, Findings, Settings, decide};
use numapilot_tune::evidence::{Goal, Trial};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::surface::{Surface, World};

/// The results of searches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Searches.
    pub searches: usize,
    /// Searches that named a plan that takes at most 5 % longer than the best.
    pub close: usize,
    /// Searches that called a plan better than the default.
    pub claims: usize,
    /// Of these, those in which it is not.
    pub wrong: usize,
    /// Runs of all searches.
    pub runs: usize,
}

impl Tally {
    pub fn join(&mut self, other: Self) {
        self.searches += other.searches;
        self.close += other.close;
        self.claims += other.claims;
        self.wrong += other.wrong;
        self.runs += other.runs;
    }
}

/// A program on a machine with one node (6 allocators and 3 settings of THP, or 5, 3 and 3 levels),
/// with few plans (6 allocators, or 4 of them and 2 settings of THP), or on a machine with several
/// nodes.
pub fn surface(space: &str, seed: u64, world: World) -> Surface {
    if space == "several" {
        return Surface::random(seed, world);
    }
    let levels = match (space, seed.is_multiple_of(2)) {
        ("few", true) => vec![6],
        ("few", false) => vec![4, 2],
        (_, true) => vec![6, 3],
        (_, false) => vec![5, 3, 3],
    };
    Surface::with_levels(levels, world, &mut StdRng::seed_from_u64(seed))
}

/// One search with this many runs.
pub fn search(space: &str, seed: u64, runs: usize, world: World) -> Tally {
    let surface = surface(space, seed, world);
    let settings = Settings { seed, noise_runs: 1, ..Settings::simple(Goal::Minimize, runs) };
    let mut rng = StdRng::seed_from_u64(!seed);
    let mut evidence: Vec<Trial> = Vec::new();
    while let Decision::Run(orders) = decide(&surface.shape, &settings, &evidence) {
        for order in orders {
            evidence.push(surface.run(order, evidence.len(), runs, &mut rng));
        }
    }
    assert!(evidence.len() <= runs, "{} of {runs} runs", evidence.len());
    let findings = Findings::new(&surface.shape, &settings, &evidence);
    let best = findings.best().map(|best| surface.difference(best.plan));
    Tally {
        searches: 1,
        close: usize::from(surface.regret(findings.named()) <= 0.05_f64.ln_1p()),
        claims: usize::from(best.is_some()),
        wrong: usize::from(best.is_some_and(|difference| difference >= 0.0)),
        runs: evidence.len(),
    }
}
