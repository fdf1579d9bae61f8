//! Random response surfaces, and a program that runs on one.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};

use numapilot_tune::evidence::{Failure, Order, Outcome, Trial};
use numapilot_tune::shape::{Candidate, Shape};

/// The properties of the programs of one test.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Whether plans differ at all.
    pub effects: bool,
    /// Whether some levels, and pairs of levels, always fail.
    pub crashes: bool,
    /// Standard deviation of the logarithm of a run's time.
    pub noise: f64,
    /// Share of runs that something else on the machine slows down.
    pub disturbed: f64,
    /// The least and the largest factor by which they are slowed.
    pub slowed: (f64, f64),
    /// Share of runs that fail by chance, whatever the plan.
    pub failing: f64,
    /// Standard deviation of the logarithm of a program's time from the first run to the last.
    pub trend: f64,
    /// The same for a wave of two periods.
    pub wave: f64,
}

impl World {
    /// A usual machine: 5 % noise, and 2 % of runs slowed by other load.
    pub const USUAL: Self = Self {
        effects: true,
        crashes: true,
        noise: 0.05,
        disturbed: 0.02,
        slowed: (1.221_402_758, 2.225_540_928),
        failing: 0.0,
        trend: 0.10,
        wave: 0.03,
    };

    /// A machine on which all plans are equal.
    pub const EQUAL: Self = Self { effects: false, ..Self::USUAL };
}

/// True log-times of all cells; `None` where the program fails.
pub struct Surface {
    world: World,
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
        Self::with_levels(levels, world, &mut rng)
    }

    /// A surface with these numbers of levels.
    pub fn with_levels(levels: Vec<usize>, world: World, rng: &mut StdRng) -> Self {
        let shape = Shape { levels, ..Shape::default() };
        let mut costs = vec![Some(0.0); shape.cells()];
        if world.effects {
            add_effects(&shape, world, &mut costs, rng);
        }
        Self {
            world,
            shape,
            costs,
            trend: normal(rng, world.trend),
            wave: normal(rng, world.wave),
            phase: rng.random_range(0.0..std::f64::consts::TAU),
        }
    }

    /// Another program on the same machine. This share of its effects, as a correlation, is that of
    /// this program; it fails where it does by itself.
    pub fn alike(&self, share: f64, world: World, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut other = Self::with_levels(self.shape.levels.clone(), world, &mut rng);
        let own = (1.0 - share * share).sqrt();
        for (cell, cost) in (0..).map(Candidate).zip(&mut other.costs) {
            let here = self.difference(cell);
            // Where this program fails, its effect is not known.
            let here = if here.is_finite() { here } else { 0.0 };
            *cost = cost.map(|cost| own * cost + share * here);
        }
        other
    }

    /// Logarithm of a plan's true time divided by the default's.
    pub fn difference(&self, plan: Candidate) -> f64 {
        let cost = |plan: usize| self.costs[plan].unwrap_or(f64::INFINITY);
        cost(plan.0 as usize) - cost(0)
    }

    /// The true effect of a level with the default's levels of the other factors; infinite if the
    /// program fails with it.
    pub fn level_effect(&self, factor: usize, level: usize) -> f64 {
        let mut point = vec![0; self.shape.levels.len()];
        point[factor] = level;
        self.difference(self.shape.cell(&point))
    }

    /// The true main effect of a level.
    pub fn main_effect(&self, factor: usize, level: usize) -> f64 {
        let of_level = |level: usize| -> Vec<f64> {
            let has = |cell: &Candidate| {
                self.shape.coordinates(*cell).is_some_and(|point| point[factor] == level)
            };
            self.shape.candidates().filter(has).map(|cell| self.difference(cell)).collect()
        };
        let mean = |costs: &[f64]| costs.iter().sum::<f64>() / costs.len() as f64;
        mean(&of_level(level)) - mean(&of_level(0))
    }

    /// Logarithm of a plan's true time divided by the best plan's.
    pub fn regret(&self, plan: Candidate) -> f64 {
        let best = self.costs.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        self.costs[plan.0 as usize].map_or(f64::INFINITY, |cost| cost - best)
    }

    /// Runs the program as the `index`-th run of about `total`.
    pub fn run(&self, order: Order, index: usize, total: usize, rng: &mut StdRng) -> Trial {
        let time = index as f64 / total as f64;
        let drift = self.trend * time + self.wave * (12.0 * time + self.phase).sin();
        let World { noise, disturbed, slowed: (least, most), failing, .. } = self.world;
        let slowed =
            if rng.random_bool(disturbed) { rng.random_range(least.ln()..most.ln()) } else { 0.0 };
        let luck = drift + slowed + normal(rng, noise);
        let fails = failing > 0.0 && rng.random_bool(failing);
        let cost = self.costs[order.candidate.0 as usize].filter(|_| !fails).map(|c| c + luck);
        let (seconds, outcome) = match cost {
            Some(cost) => (cost.exp(), Outcome::Value(cost.exp())),
            None => (0.1, Outcome::Failed(Failure::Signal(11))),
        };
        Trial::new(order, seconds, outcome)
    }
}

/// Effects by the levels of one or two factors; `None` if the program fails.
type Table = Vec<Vec<Option<f64>>>;

/// Adds main effects of very different sizes, interactions in some pairs of factors, and failing
/// levels and pairs of levels, but never at the default.
fn add_effects(shape: &Shape, world: World, costs: &mut [Option<f64>], rng: &mut StdRng) {
    let factors = shape.levels.len();
    let mut tables: Vec<(usize, usize, Table)> = Vec::new();
    for f in 0..factors {
        let sigma = [0.01, 0.05, 0.1, 0.3][rng.random_range(0..4)];
        let effects = (0..shape.levels[f])
            .map(|l| {
                let fails = l > 0 && rng.random_bool(0.03) && world.crashes;
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
                            let fails = a > 0 && b > 0 && rng.random_bool(0.01) && world.crashes;
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
