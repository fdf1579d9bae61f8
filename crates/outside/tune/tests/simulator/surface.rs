//! Random response surfaces, and a program that runs on one.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};

use numapilot_tune::evidence::{Failure, Order, Outcome, Trial};
use numapilot_tune::shape::{Candidate, Shape};

/// Standard deviation of the logarithm of a run's time.
const NOISE: f64 = 0.05;
/// Share of runs that something else on the machine slows down.
const OUTLIERS: f64 = 0.02;

/// What the programs of one test look like.
#[derive(Clone, Copy)]
pub struct World {
    /// Whether plans differ at all.
    pub effects: bool,
}

/// True log-times of all cells; `None` where the program fails.
pub struct Surface {
    pub shape: Shape,
    costs: Vec<Option<f64>>,
    trend: f64,
    wave: f64,
    phase: f64,
}

fn normal(rng: &mut StdRng, sigma: f64) -> f64 {
    Normal::new(0.0, sigma).unwrap().sample(rng)
}

impl Surface {
    /// A machine with several nodes: 4 to 7 allocators, 3 thread placements, 3 or 4
    /// memory policies, 3 settings of THP, 2 or 3 of AutoNUMA.
    pub fn random(seed: u64, world: World) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let levels =
            vec![rng.random_range(4..=7), 3, rng.random_range(3..=4), 3, rng.random_range(2..=3)];
        let shape = Shape { levels, extras: 0 };
        let mut costs = vec![Some(0.0); shape.cells()];
        if world.effects {
            add_effects(&shape, &mut costs, &mut rng);
        }
        Self {
            shape,
            costs,
            trend: normal(&mut rng, 0.10),
            wave: normal(&mut rng, 0.03),
            phase: rng.random_range(0.0..std::f64::consts::TAU),
        }
    }

    /// Log of a plan's true time over the best plan's.
    pub fn regret(&self, plan: Candidate) -> f64 {
        let best = self.costs.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        self.costs[plan.0 as usize].map_or(f64::INFINITY, |cost| cost - best)
    }

    /// Runs the program as the `index`-th run of about `total`.
    pub fn run(&self, order: Order, index: usize, total: usize, rng: &mut StdRng) -> Trial {
        let time = index as f64 / total as f64;
        let drift = self.trend * time + self.wave * (12.0 * time + self.phase).sin();
        let slowed = if rng.random_bool(OUTLIERS) { rng.random_range(0.2..0.8) } else { 0.0 };
        let luck = drift + slowed + normal(rng, NOISE);
        let cost = self.costs[order.candidate.0 as usize].map(|c| c + luck);
        let (seconds, outcome) = match cost {
            Some(cost) => (cost.exp(), Outcome::Value(cost.exp())),
            None => (0.1, Outcome::Failed(Failure::Signal(11))),
        };
        Trial { order, seconds, peak_rss_bytes: None, outcome }
    }
}

/// Effects by the levels of one factor or two; `None` where the program fails.
type Table = Vec<Vec<Option<f64>>>;

/// Main effects of very different sizes, interactions in some pairs of factors, and
/// failing levels and pairs of levels; never at the default.
fn add_effects(shape: &Shape, costs: &mut [Option<f64>], rng: &mut StdRng) {
    let factors = shape.levels.len();
    let mut tables: Vec<(usize, usize, Table)> = Vec::new();
    for f in 0..factors {
        let sigma = [0.01, 0.05, 0.1, 0.3][rng.random_range(0..4)];
        let effects = (0..shape.levels[f])
            .map(|l| {
                let fails = l > 0 && rng.random_bool(0.03);
                let effect = if l == 0 { 0.0 } else { normal(rng, sigma) };
                vec![(!fails).then_some(effect)]
            })
            .collect();
        tables.push((f, f, effects));
    }
    for f in 0..factors {
        for g in f + 1..factors {
            let active = rng.random_bool(0.4);
            let sigma = [0.03, 0.1][rng.random_range(0..2)];
            let effects = (0..shape.levels[f])
                .map(|a| {
                    (0..shape.levels[g])
                        .map(|b| {
                            let fails = a > 0 && b > 0 && rng.random_bool(0.01);
                            let acts = active && a > 0 && b > 0 && rng.random_bool(0.5);
                            let effect = if acts { normal(rng, sigma) } else { 0.0 };
                            (!fails).then_some(effect)
                        })
                        .collect()
                })
                .collect();
            tables.push((f, g, effects));
        }
    }
    for (index, cost) in costs.iter_mut().enumerate() {
        let cell = Candidate(u32::try_from(index).unwrap());
        let point = shape.coordinates(cell).unwrap();
        *cost = tables.iter().try_fold(0.0, |sum, (f, g, effects)| {
            let column = if f == g { 0 } else { point[*g] };
            Some(sum + effects[point[*f]][column]?)
        });
    }
}
