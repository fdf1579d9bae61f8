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
        self.step_weights(rest, weights, noise, rng);
        self.step_offsets(rest, weights, noise, rng);
    }

    /// Redraws all weights together: what related searches predict is nearly the same, so that one
    /// weight at a time would hardly move once another search explains the runs.
    fn step_weights(&mut self, rest: &mut [f64], weights: &[f64], noise: f64, rng: &mut SmallRng) {
        for search in &self.searches {
            let predicted = search.of_runs.iter().zip(&mut *rest);
            predicted.for_each(|(predicted, rest)| *rest += search.weight * predicted);
        }
        let product = |a: &[f64], b: &[f64]| {
            let products = a.iter().zip(b).zip(weights).map(|((a, b), weight)| a * b * weight);
            products.sum::<f64>() / noise
        };
        let of_runs = |search: &Transfer| product(&search.of_runs, rest);
        let with = |a: &Transfer| {
            self.searches.iter().map(|b| product(&a.of_runs, &b.of_runs)).collect::<Vec<f64>>()
        };
        let regression = Regression {
            products: self.searches.iter().map(with).collect(),
            of_runs: self.searches.iter().map(of_runs).collect(),
        };
        let mut tells: Vec<bool> = self.searches.iter().map(|s| s.weight != 0.0).collect();
        for index in 0..tells.len() {
            let [without, with] = [false, true].map(|tell| {
                tells[index] = tell;
                regression.given(&tells).ln_likelihood()
            });
            tells[index] = happens(TELLS + with - without, rng);
        }
        let drawn = regression.given(&tells).draw(rng);
        for (search, weight) in self.searches.iter_mut().zip(drawn) {
            search.weight = weight;
            let predicted = search.of_runs.iter().zip(&mut *rest);
            predicted.for_each(|(predicted, rest)| *rest -= weight * predicted);
        }
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

/// The regression of the runs on what the searches predict for them.
struct Regression {
    /// Products of the predictions of two searches, summed over the runs by their precision.
    products: Vec<Vec<f64>>,
    /// The same of the predictions of a search and the costs of the runs.
    of_runs: Vec<f64>,
}

/// The normal distribution of the weights, given which searches tell anything.
struct Weights {
    /// The searches that do.
    indices: Vec<usize>,
    /// The lower triangular root of their weights' precision.
    root: Vec<Vec<f64>>,
    /// That root's inverse times precision times mean.
    scaled: Vec<f64>,
    /// The number of all searches.
    of: usize,
}

/// The centre and the precision of the weight of each of this many searches before any run.
fn before_any_run(searches: usize) -> (f64, f64) {
    let searches = searches as f64;
    (searches.recip(), searches / (SPREAD * SPREAD))
}

impl Regression {
    fn given(&self, tells: &[bool]) -> Weights {
        let (centre, precision) = before_any_run(tells.len());
        let indices: Vec<usize> = (0..tells.len()).filter(|&index| tells[index]).collect();
        let mut root: Vec<Vec<f64>> = Vec::with_capacity(indices.len());
        let mut scaled: Vec<f64> = Vec::with_capacity(indices.len());
        // Cholesky's decomposition, row by row.
        for (row, &i) in indices.iter().enumerate() {
            let mut of_row: Vec<f64> = Vec::with_capacity(row + 1);
            for (column, &j) in indices[..=row].iter().enumerate() {
                let own = if i == j { precision } else { 0.0 };
                let above = root.get(column).unwrap_or(&of_row);
                let before: f64 = of_row.iter().zip(above).take(column).map(|(a, b)| a * b).sum();
                let rest = self.products[i][j] + own - before;
                of_row.push(match root.get(column) {
                    Some(above) => rest / above[column],
                    None => rest.max(precision * f64::EPSILON).sqrt(),
                });
            }
            let before: f64 = of_row.iter().zip(&scaled).map(|(a, b)| a * b).sum();
            scaled.push((self.of_runs[i] + precision * centre - before) / of_row[row]);
            root.push(of_row);
        }
        Weights { indices, root, scaled, of: tells.len() }
    }
}

impl Weights {
    /// The logarithm of the likelihood of the runs, up to a constant.
    fn ln_likelihood(&self) -> f64 {
        let (centre, precision) = before_any_run(self.of);
        let squares: f64 = self.scaled.iter().map(|scaled| scaled * scaled).sum();
        let determinant: f64 =
            self.root.iter().filter_map(|row| row.last()).map(|last| last.ln()).sum();
        let each = (precision.ln() - precision * centre * centre) / 2.0;
        squares / 2.0 - determinant + each * self.indices.len() as f64
    }

    /// Draws the weights of all searches.
    fn draw(&self, rng: &mut SmallRng) -> Vec<f64> {
        let mut drawn = vec![0.0; self.of];
        let mut right: Vec<f64> = self.scaled.iter().map(|scaled| scaled + normal(rng)).collect();
        // Back substitution with the transposed root.
        for row in (0..self.indices.len()).rev() {
            let weight = right[row] / self.root[row][row];
            drawn[self.indices[row]] = weight;
            right.iter_mut().zip(&self.root[row]).take(row).for_each(|(r, l)| *r -= l * weight);
        }
        drawn
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
    fn searches_that_predict_nearly_the_same_are_averaged() {
        let (one, other) = ([0.0, -0.32, 0.2, 0.12], [0.0, -0.28, 0.2, 0.08]);
        let found = weights(&[0.0, -0.3, 0.2, 0.1], [&one, &other]);
        assert!((found[0] - 0.5).abs() < 0.1 && (found[1] - 0.5).abs() < 0.1, "{found:?}");
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
