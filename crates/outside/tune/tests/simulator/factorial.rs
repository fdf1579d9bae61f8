//! The reference: every cell is measured several times, in random order, and the least median wins.

use numapilot_tune::evidence::{Goal, Order, Phase};
use numapilot_tune::shape::Candidate;
use numapilot_tune::statistics::median;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::TOLERANCE;
use crate::surface::{Surface, World};

/// Whether the result of the full factorial is close to the best plan.
pub fn is_good(seed: u64, repetitions: usize) -> bool {
    let surface = Surface::random(seed, World::USUAL);
    let mut rng = StdRng::seed_from_u64(!seed);
    let cells: Vec<Candidate> = surface.shape.candidates().collect();
    let mut order: Vec<Candidate> =
        std::iter::repeat_n(&cells, repetitions).flatten().copied().collect();
    order.shuffle(&mut rng);
    let mut costs = vec![Vec::new(); cells.len()];
    for (index, &candidate) in order.iter().enumerate() {
        let ordered = Order { phase: Phase::Race, block: 0, candidate };
        let trial = surface.run(ordered, index, order.len(), &mut rng);
        costs[candidate.0 as usize].extend(trial.cost(Goal::Minimize));
    }
    let chosen = cells
        .into_iter()
        .filter(|cell| !costs[cell.0 as usize].is_empty())
        .min_by(|a, b| {
            let typical = |cell: &Candidate| median(&costs[cell.0 as usize]);
            typical(a).total_cmp(&typical(b))
        })
        .unwrap();
    surface.regret(chosen) <= TOLERANCE.ln_1p()
}
