//! What earlier searches found, as an explanation of the runs: the costs that each of them predicts
//! for every plan, times a weight that is inferred.
//!
//! The weight is 1 for a program that behaves like this one, and 0 for one that has nothing in
//! common with it. It is zero or normal, like an effect; before any run, all searches together
//! predict what they found on average. What the earlier searches do not explain is left to the
//! effects (`terms`), which need fewer runs the less that is. What an earlier search predicts of a plan
//! has an error of its own, which runs of the plan correct.
//!
//! Source: M. Feurer, B. Letham, F. Hutter, E. Bakshy, "Practical Transfer Learning for Bayesian
//! Optimization", arXiv:1802.02219 (2018), for weighing earlier searches by how well they predict
//! the runs of the present one.

use rand::rngs::SmallRng;

use super::{happens, normal};
use crate::decide::prior::Earlier;
use crate::shape::{Candidate, Shape};

/// Log-odds that an earlier search tells anything: 2 to 1.
const TELLS: f64 = std::f64::consts::LN_2;
/// Standard deviation of the sum of all weights, which is expected to be 1.
const SPREAD: f64 = 0.5;
/// The sum of all weights from which on earlier searches predict what the runs show.
const FORETELLS: f64 = 0.5;

/// Whether searches with these weights predict what the runs show.
pub fn foretell(weights: &[f64]) -> bool {
    weights.iter().sum::<f64>().abs() >= FORETELLS
}

/// The earlier searches.
pub struct Transfers<'a> {
    searches: Vec<Transfer<'a>>,
    /// The plans that ran, in ascending order, and the index of that of each run.
    ran: Vec<Candidate>,
    plan_of: Vec<usize>,
    /// By how much the plans that ran cost more than is predicted.
    offsets: Vec<f64>,
}

/// One earlier search.
struct Transfer<'a> {
    earlier: &'a Earlier,
    /// The costs that it predicts for the plan of each run.
    of_runs: Vec<f64>,
    weight: f64,
}

impl<'a> Transfers<'a> {
    /// The earlier searches, for runs of these plans. All weights are 0.
    pub fn new(searches: &'a [Earlier], plans: &[Candidate]) -> Self {
        let transfer = |earlier: &'a Earlier| Transfer {
            earlier,
            of_runs: plans.iter().map(|plan| at(&earlier.costs, *plan)).collect(),
            weight: 0.0,
        };
        let mut ran = plans.to_vec();
        ran.sort_unstable();
        ran.dedup();
        Self {
            searches: searches.iter().map(transfer).collect(),
            plan_of: plans.iter().map(|plan| ran.partition_point(|known| known < plan)).collect(),
            offsets: vec![0.0; ran.len()],
            ran,
        }
    }

    /// Redraws all weights, and by how much each plan differs from what is predicted. `rest` is the
    /// part of the costs that neither they nor the other parts explain.
    pub fn step(&mut self, rest: &mut [f64], weights: &[f64], noise: f64, rng: &mut SmallRng) {
        if self.searches.is_empty() {
            return;
        }
        let count = self.searches.len() as f64;
        let (centre, variance) = (count.recip(), SPREAD * SPREAD / count);
        for search in &mut self.searches {
            search.step((centre, variance), rest, weights, noise, rng);
        }
        self.step_offsets(rest, weights, noise, rng);
    }

    fn step_offsets(&mut self, rest: &mut [f64], weights: &[f64], noise: f64, rng: &mut SmallRng) {
        let mut sums = vec![(0.0, 0.0); self.ran.len()];
        for ((&plan, rest), weight) in self.plan_of.iter().zip(&*rest).zip(weights) {
            sums[plan].0 += weight / noise;
            sums[plan].1 += weight * (rest + self.offsets[plan]) / noise;
        }
        let mut changes = vec![0.0; self.ran.len()];
        for (index, (precision, sum)) in sums.into_iter().enumerate() {
            let variance = self.variance(self.ran[index]);
            let spread = variance / (1.0 + precision * variance);
            let offset = sum * spread + spread.sqrt() * normal(rng);
            changes[index] = offset - self.offsets[index];
            self.offsets[index] = offset;
        }
        for (&plan, rest) in self.plan_of.iter().zip(rest) {
            *rest -= changes[plan];
        }
    }

    /// Variance of what all searches together predict for a plan.
    fn variance(&self, plan: Candidate) -> f64 {
        let of = |search: &Transfer| (search.weight * at(&search.earlier.deviations, plan)).powi(2);
        self.searches.iter().map(of).sum()
    }

    /// The weight of each search.
    pub fn weights(&self) -> Vec<f64> {
        self.searches.iter().map(|search| search.weight).collect()
    }

    /// Whether they predict what the runs show.
    pub fn foretell(&self) -> bool {
        foretell(&self.weights())
    }

    /// Adds what they predict to the costs of all candidates.
    pub fn add(&self, shape: &Shape, costs: &mut [f64], rng: &mut SmallRng) {
        if self.searches.is_empty() {
            return;
        }
        for (plan, cost) in (0..).map(Candidate).zip(costs.iter_mut().take(shape.cells())) {
            for search in &self.searches {
                *cost += search.weight * at(&search.earlier.costs, plan);
            }
            *cost += match self.ran.binary_search(&plan) {
                Ok(index) => self.offsets[index],
                Err(_) => self.variance(plan).sqrt() * normal(rng),
            };
        }
    }
}

/// The figure of a plan; 0 outside the grid.
fn at(figures: &[f64], plan: Candidate) -> f64 {
    figures.get(plan.0 as usize).copied().unwrap_or_default()
}

impl Transfer<'_> {
    fn step(
        &mut self,
        (centre, variance): (f64, f64),
        rest: &mut [f64],
        weights: &[f64],
        noise: f64,
        rng: &mut SmallRng,
    ) {
        let (mut precision, mut sum) = (0.0, 0.0);
        for ((predicted, rest), weight) in self.of_runs.iter().zip(&*rest).zip(weights) {
            precision += weight * predicted * predicted / noise;
            sum += weight * predicted * (rest + predicted * self.weight) / noise;
        }
        let spread = (precision + variance.recip()).recip();
        let mean = (sum + centre / variance) * spread;
        // The ratio of the likelihoods of the runs with and without a weight.
        let gain =
            (mean * mean / spread - centre * centre / variance + (spread / variance).ln()) / 2.0;
        let before = self.weight;
        self.weight =
            if happens(TELLS + gain, rng) { mean + spread.sqrt() * normal(rng) } else { 0.0 };
        let change = self.weight - before;
        for (predicted, rest) in self.of_runs.iter().zip(rest) {
            *rest -= change * predicted;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn earlier(costs: &[f64]) -> Earlier {
        Earlier { costs: costs.to_vec(), ..Earlier::default() }
    }

    /// Mean weights of two searches for a program with these costs.
    fn weights(truth: &[f64], others: [&[f64]; 2]) -> Vec<f64> {
        let plans: Vec<Candidate> = (0..truth.len() as u32).map(Candidate).collect();
        let searches = others.map(earlier);
        let mut transfers = Transfers::new(&searches, &plans);
        let mut rng = SmallRng::seed_from_u64(1);
        let mut rest = truth.to_vec();
        let mut sums = vec![0.0; 2];
        for _ in 0..1000 {
            transfers.step(&mut rest, &vec![1.0; truth.len()], 1e-4, &mut rng);
            for (sum, weight) in sums.iter_mut().zip(transfers.weights()) {
                *sum += weight / 1000.0;
            }
        }
        sums
    }

    #[test]
    fn a_search_counts_as_much_as_it_predicts() {
        let (like, unlike) = ([0.0, -0.3, 0.2, 0.1], [0.0, 0.1, 0.2, -0.3]);
        let found = weights(&like, [&like, &unlike]);
        assert!((found[0] - 1.0).abs() < 0.1 && found[1].abs() < 0.1, "{found:?}");
        let half: Vec<f64> = like.iter().map(|cost| cost / 2.0).collect();
        let found = weights(&half, [&like, &unlike]);
        assert!((found[0] - 0.5).abs() < 0.1, "{found:?}");
        let opposite: Vec<f64> = like.iter().map(|cost| -cost).collect();
        let found = weights(&opposite, [&like, &unlike]);
        assert!(found[0] < 0.0, "{found:?}");
    }

    #[test]
    fn the_costs_of_all_cells_follow_the_weights() {
        let searches = [earlier(&[0.0, -0.4])];
        let mut transfers = Transfers::new(&searches, &[Candidate(0), Candidate(1)]);
        transfers.searches[0].weight = 0.5;
        let shape = Shape { levels: vec![2], extras: 1, ..Shape::default() };
        let mut costs = [1.0, 1.0, 1.0];
        transfers.add(&shape, &mut costs, &mut SmallRng::seed_from_u64(1));
        assert_eq!(costs, [1.0, 0.8, 1.0]);
    }

    #[test]
    fn runs_correct_what_was_predicted_with_doubt() {
        let search = Earlier { deviations: vec![0.0, 0.1, 0.1], ..earlier(&[0.0, -0.4, -0.4]) };
        let searches = [search];
        // The second plan ran four times at -0.3; the third never ran.
        let plans = [0, 0, 0, 0, 1, 1, 1, 1].map(Candidate);
        let mut transfers = Transfers::new(&searches, &plans);
        let mut rest: Vec<f64> = plans.iter().map(|plan| -0.3 * f64::from(plan.0)).collect();
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut ran, mut never) = (Vec::new(), Vec::new());
        let shape = Shape { levels: vec![3], ..Shape::default() };
        for _ in 0..1000 {
            transfers.step(&mut rest, &[1.0; 8], 1e-4, &mut rng);
            let mut costs = [0.0; 3];
            transfers.add(&shape, &mut costs, &mut rng);
            ran.push(costs[1]);
            never.push(costs[2]);
        }
        let spread = |costs: &[f64]| {
            let mean = costs.iter().sum::<f64>() / 1000.0;
            let squares = costs.iter().map(|cost| (cost - mean).powi(2)).sum::<f64>();
            (mean, (squares / 1000.0).sqrt())
        };
        let ((mean, known), (_, unknown)) = (spread(&ran), spread(&never));
        assert!((mean + 0.3).abs() < 0.01 && known < 0.01, "{mean} {known}");
        assert!(unknown > 0.05, "{unknown}");
    }
}
