//! The screening model: what the runs so far say about every combination of levels,
//! measured or not.
//!
//! The logarithm of the metric is taken as
//!
//! ```text
//!  constant + sum of main effects + sum of two-factor interactions + the cell's own + block + noise
//! ```
//!
//! each term normal with its own variance: analysis of variance with random effects, which
//! is the same as a Gaussian process whose kernel adds up over equal levels. The variances
//! are those of the greatest marginal likelihood over a grid. Runs that lie far off are
//! given less weight.
//!
//! Sources: S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components" (1992);
//! C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning" (2006),
//! algorithm 2.1 and section 5.4; samples of the posterior by A. G. Journel, C. J.
//! Huijbregts, "Mining Geostatistics" (1978): a sample of the prior is corrected by the
//! data ("Matheron's rule"), which needs no covariance matrix of all cells.
//!
//! The model only proposes which plans to race. What a race then says rests on the runs
//! of the race alone.

use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

use crate::shape::{Candidate, Shape};

/// A cost seen at a cell, in a block of runs made one right after the other.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The cell.
    pub cell: Candidate,
    /// Block number, from 0.
    pub block: usize,
    /// Logarithm of the metric, less is better.
    pub cost: f64,
}

/// Standard deviations of the terms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scales {
    main: f64,
    pair: f64,
    cell: f64,
    block: f64,
    noise: f64,
}

/// Which scale a step of the search changes.
#[derive(Clone, Copy, Debug)]
enum Vary {
    /// Main effects, interactions along with them.
    Main,
    /// Interactions, as a share of the main effects.
    Pair,
    /// Noise, as a share of the first guess.
    Noise,
    /// Blocks, as a share of the first guess at the noise.
    Block,
}

/// Runs from which the scales are estimated.
const SCALES_FROM: usize = 64;

/// The steps that are tried.
const GRID: &[(Vary, &[f64])] = &[
    (Vary::Main, &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64]),
    (Vary::Pair, &[0.05, 0.1, 0.2, 0.4, 0.8]),
    (Vary::Noise, &[0.6, 0.8, 1.0, 1.3, 1.7]),
    (Vary::Block, &[0.3, 1.0, 3.0]),
];

impl Scales {
    fn with(mut self, vary: Vary, step: f64, noise: f64) -> Self {
        match vary {
            Vary::Main => {
                self.pair *= step / self.main;
                self.main = step;
            }
            Vary::Pair => self.pair = step * self.main,
            Vary::Noise => self.noise = step * noise,
            Vary::Block => self.block = step * noise,
        }
        self.cell = self.pair / 2.0;
        self
    }

    /// Covariance of two runs' costs, noise aside, by twice the number of factors they
    /// agree in, plus 1 when they are of the same block.
    fn covariances(self, factors: usize) -> Vec<f64> {
        let Self { main, pair, cell, block, .. } = self;
        let mut covariances = Vec::with_capacity(2 * factors + 2);
        for agree in 0..=factors {
            let equal = agree as f64;
            // The constant has a flat prior: wide against every difference of logarithms.
            let mut sum = 1.0 + main * main * equal + pair * pair * equal * (equal - 1.0) / 2.0;
            if agree == factors {
                sum += cell * cell;
            }
            covariances.extend([sum, sum + block * block]);
        }
        covariances
    }
}

/// The fitted model.
#[derive(Debug)]
pub struct Model<'a> {
    shape: &'a Shape,
    points: Vec<Vec<usize>>,
    blocks: Vec<usize>,
    /// What any two runs have in common, as an index into [`Scales::covariances`]: the
    /// lower triangle, row by row.
    common: Vec<usize>,
    centre: f64,
    costs: Vec<f64>,
    scales: Scales,
    /// Noise variance of each run; larger for outliers.
    noise: Vec<f64>,
    factor: Cholesky,
}

/// Costs of all cells relative to the model's constant: tables of the terms.
#[derive(Clone, Debug)]
pub struct Surface<'a> {
    shape: &'a Shape,
    centre: f64,
    main: Vec<Vec<f64>>,
    /// For each pair of factors, levels of the first by levels of the second.
    pair: Vec<Vec<f64>>,
    /// The cell's own term, for all cells.
    own: Vec<f64>,
}

impl<'a> Model<'a> {
    /// Fits the model; `noise` is the first guess at the standard deviation of a cost.
    /// `None` without runs inside the grid.
    #[must_use]
    pub fn fit(shape: &'a Shape, seen: &[Seen], noise: f64) -> Option<Self> {
        let seen: Vec<(Vec<usize>, &Seen)> =
            seen.iter().filter_map(|s| Some((shape.coordinates(s.cell)?, s))).collect();
        if seen.is_empty() {
            return None;
        }
        let costs: Vec<f64> = seen.iter().map(|(_, s)| s.cost).collect();
        let centre = crate::statistics::median(&costs);
        let noise = if noise.is_finite() { noise.max(1e-4) } else { 0.05 };
        let points: Vec<Vec<usize>> = seen.iter().map(|(p, _)| p.clone()).collect();
        let blocks: Vec<usize> = seen.iter().map(|(_, s)| s.block).collect();
        let mut model = Self {
            shape,
            common: common(&points, &blocks),
            points,
            blocks,
            centre,
            costs: costs.iter().map(|c| c - centre).collect(),
            scales: Scales { main: 0.1, pair: 0.03, cell: 0.01, block: noise, noise },
            noise: Vec::new(),
            factor: Cholesky::default(),
        };
        model.scales = model.likeliest_scales(noise);
        let mut weights = vec![1.0; costs.len()];
        model.factorise(model.scales, &weights);
        for _ in 0..2 {
            if !model.weigh_outliers(&mut weights) {
                break;
            }
            model.factorise(model.scales, &weights);
        }
        Some(model)
    }

    /// Standard deviation of a single cost, outliers aside.
    #[must_use]
    pub fn noise(&self) -> f64 {
        self.scales.noise
    }

    /// Coordinate ascent of the marginal likelihood over a grid of scales, on the runs made
    /// first: later ones are picked for being good, and cost time without telling more.
    fn likeliest_scales(&self, noise: f64) -> Scales {
        let n = self.costs.len().min(SCALES_FROM);
        let mut first = Self {
            shape: self.shape,
            points: self.points[..n].to_vec(),
            blocks: self.blocks[..n].to_vec(),
            common: self.common[..n * (n + 1) / 2].to_vec(),
            centre: self.centre,
            costs: self.costs[..n].to_vec(),
            scales: self.scales,
            noise: Vec::new(),
            factor: Cholesky::default(),
        };
        let weights = vec![1.0; n];
        let mut best = f64::NEG_INFINITY;
        let mut scales = self.scales;
        let mut done: Vec<Scales> = Vec::new();
        for _ in 0..2 {
            let before = scales;
            for (vary, steps) in GRID {
                let base = scales;
                for &step in *steps {
                    let tried = base.with(*vary, step, noise);
                    if done.contains(&tried) {
                        continue;
                    }
                    done.push(tried);
                    let likelihood = first.factorise(tried, &weights);
                    if likelihood > best {
                        best = likelihood;
                        scales = tried;
                    }
                }
            }
            if scales == before {
                break;
            }
        }
        scales
    }

    /// Sets the scales and returns the logarithm of the marginal likelihood.
    fn factorise(&mut self, scales: Scales, weights: &[f64]) -> f64 {
        self.scales = scales;
        self.noise = weights.iter().map(|w| scales.noise * scales.noise / w).collect();
        let n = self.costs.len();
        let covariances = scales.covariances(self.shape.levels.len());
        let mut matrix = std::mem::take(&mut self.factor.lower);
        matrix.resize(n * n, 0.0);
        let mut rest = self.common.as_slice();
        for (i, noise) in self.noise.iter().enumerate() {
            let (row, below) = rest.split_at(i + 1);
            for (entry, &common) in matrix[i * n..].iter_mut().zip(row) {
                *entry = covariances[common];
            }
            matrix[i * n + i] += noise;
            rest = below;
        }
        self.factor = Cholesky::of(matrix, n);
        let alpha = self.factor.solve(&self.costs);
        let fit: f64 = alpha.iter().zip(&self.costs).map(|(a, c)| a * c).sum();
        -0.5 * fit - self.factor.log_diagonal()
    }

    /// Gives less weight to runs far from the fit, as Student's t with 4 degrees of
    /// freedom would; says whether any weight changed.
    fn weigh_outliers(&self, weights: &mut [f64]) -> bool {
        let alpha = self.factor.solve(&self.costs);
        let mut changed = false;
        for (i, weight) in weights.iter_mut().enumerate() {
            let residual = alpha[i] * self.noise[i] / self.scales.noise;
            let now = if residual.abs() > 2.0 { 5.0 / (4.0 + residual * residual) } else { 1.0 };
            changed |= now != *weight;
            *weight = now;
        }
        changed
    }

    /// The expected surface.
    #[must_use]
    pub fn mean(&self) -> Surface<'a> {
        let mut surface = Surface::flat(self.shape, self.centre);
        self.pull(&mut surface, &self.costs);
        surface
    }

    /// A surface drawn at random from those that agree with the data.
    #[must_use]
    pub fn sample(&self, rng: &mut StdRng) -> Surface<'a> {
        let Scales { main, pair, cell, block, .. } = self.scales;
        let mut normal = |sigma: f64| {
            let z: f64 = StandardNormal.sample(rng);
            sigma * z
        };
        let mut surface = Surface::flat(self.shape, self.centre);
        surface.main.iter_mut().flatten().for_each(|v| *v = normal(main));
        surface.pair.iter_mut().flatten().for_each(|v| *v = normal(pair));
        surface.own.iter_mut().for_each(|v| *v = normal(cell));
        let constant = normal(1.0);
        let blocks: Vec<f64> =
            (0..=self.blocks.iter().max().copied().unwrap_or(0)).map(|_| normal(block)).collect();
        let missing: Vec<f64> = (0..self.costs.len())
            .map(|i| {
                let imagined = constant
                    + surface.relative(&self.points[i])
                    + blocks[self.blocks[i]]
                    + normal(self.noise[i].sqrt());
                self.costs[i] - imagined
            })
            .collect();
        surface.centre += constant;
        self.pull(&mut surface, &missing);
        surface
    }

    /// Adds to every term what the data, as far as the surface misses them, say about it.
    fn pull(&self, surface: &mut Surface<'_>, missing: &[f64]) {
        let Scales { main, pair, cell, .. } = self.scales;
        let alpha = self.factor.solve(missing);
        for (point, a) in self.points.iter().zip(&alpha) {
            surface.centre += a;
            for (f, &level) in point.iter().enumerate() {
                surface.main[f][level] += main * main * a;
            }
            for (index, (f, g)) in pairs(point.len()).enumerate() {
                surface.pair[index][point[f] * self.shape.levels[g] + point[g]] += pair * pair * a;
            }
            surface.own[self.shape.cell(point).0 as usize] += cell * cell * a;
        }
    }
}

impl<'a> Surface<'a> {
    fn flat(shape: &'a Shape, centre: f64) -> Self {
        let levels = &shape.levels;
        Self {
            shape,
            centre,
            main: levels.iter().map(|&l| vec![0.0; l]).collect(),
            pair: pairs(levels.len()).map(|(f, g)| vec![0.0; levels[f] * levels[g]]).collect(),
            own: vec![0.0; shape.cells()],
        }
    }

    fn relative(&self, point: &[usize]) -> f64 {
        let mains: f64 = point.iter().enumerate().map(|(f, &level)| self.main[f][level]).sum();
        let paired: f64 = pairs(point.len())
            .enumerate()
            .map(|(i, (f, g))| self.pair[i][point[f] * self.shape.levels[g] + point[g]])
            .sum();
        mains + paired + self.own[self.shape.cell(point).0 as usize]
    }

    /// The cost of a cell; `None` for a candidate outside the grid.
    #[must_use]
    pub fn cost(&self, cell: Candidate) -> Option<f64> {
        Some(self.centre + self.relative(&self.shape.coordinates(cell)?))
    }

    /// Main effect of a level: its cost less that of level 0, averaged over the levels of
    /// all other factors.
    #[must_use]
    pub fn main_effect(&self, factor: usize, level: usize) -> f64 {
        let mut effect = self.main[factor][level] - self.main[factor][0];
        for (index, (f, g)) in pairs(self.shape.levels.len()).enumerate() {
            let (rows, columns) = (self.shape.levels[f], self.shape.levels[g]);
            let table = &self.pair[index];
            if f == factor {
                let row = |r: usize| table[r * columns..][..columns].iter().sum::<f64>();
                effect += (row(level) - row(0)) / columns as f64;
            } else if g == factor {
                let column = |c: usize| (0..rows).map(|r| table[r * columns + c]).sum::<f64>();
                effect += (column(level) - column(0)) / rows as f64;
            }
        }
        effect
    }
}

/// What each run has in common with every earlier one and itself.
fn common(points: &[Vec<usize>], blocks: &[usize]) -> Vec<usize> {
    let mut common = Vec::with_capacity(points.len() * (points.len() + 1) / 2);
    for (i, (point, block)) in points.iter().zip(blocks).enumerate() {
        for (other, other_block) in points[..=i].iter().zip(blocks) {
            let agree = point.iter().zip(other).filter(|(a, b)| a == b).count();
            common.push(2 * agree + usize::from(block == other_block));
        }
    }
    common
}

/// All pairs of factors, the first below the second.
fn pairs(factors: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..factors).flat_map(move |f| (f + 1..factors).map(move |g| (f, g)))
}

/// Lower triangular factor of a positive definite matrix.
#[derive(Clone, Debug, Default)]
struct Cholesky {
    n: usize,
    lower: Vec<f64>,
}

impl Cholesky {
    /// Factorises the lower triangle of `matrix`, row by row.
    fn of(mut matrix: Vec<f64>, n: usize) -> Self {
        for i in 0..n {
            let (above, below) = matrix.split_at_mut(i * n);
            let row = &mut below[..=i];
            for j in 0..i {
                let other = &above[j * n..=j * n + j];
                let dot = dot(&row[..j], &other[..j]);
                row[j] = (row[j] - dot) / other[j];
            }
            let square = dot(&row[..i], &row[..i]);
            // The noise on the diagonal keeps it positive; rounding must not undo that.
            row[i] = (row[i] - square).max(1e-12).sqrt();
        }
        Self { n, lower: matrix }
    }

    /// Half the logarithm of the determinant.
    fn log_diagonal(&self) -> f64 {
        (0..self.n).map(|i| self.lower[i * self.n + i].ln()).sum()
    }

    /// The solution of `matrix * x = right`.
    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let n = self.n;
        let mut x = right.to_vec();
        for i in 0..n {
            let row = &self.lower[i * n..i * n + i];
            let dot = dot(row, &x[..i]);
            x[i] = (x[i] - dot) / self.lower[i * n + i];
        }
        for i in (0..n).rev() {
            x[i] /= self.lower[i * n + i];
            let value = x[i];
            let row = &self.lower[i * n..i * n + i];
            for (earlier, l) in x[..i].iter_mut().zip(row) {
                *earlier -= l * value;
            }
        }
        x
    }
}

/// Scalar product in eight sums side by side: one sum would wait for each addition.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (eights_a, rest_a) = a.as_chunks::<8>();
    let (eights_b, rest_b) = b.as_chunks::<8>();
    for (x, y) in eights_a.iter().zip(eights_b) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x * y;
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn cholesky_solves() {
        let matrix = vec![4.0, 0.0, 0.0, 2.0, 5.0, 0.0, 0.6, 1.0, 3.0];
        let full = [[4.0, 2.0, 0.6], [2.0, 5.0, 1.0], [0.6, 1.0, 3.0]];
        let x = Cholesky::of(matrix, 3).solve(&[1.0, -2.0, 3.0]);
        for (row, expected) in full.iter().zip([1.0, -2.0, 3.0]) {
            let got: f64 = row.iter().zip(&x).map(|(a, b)| a * b).sum();
            assert!((got - expected).abs() < 1e-12);
        }
    }

    /// Additive costs without noise: unmeasured cells are predicted, effects recovered.
    #[test]
    fn additive_costs_are_predicted_where_nothing_was_measured() {
        let shape = Shape { levels: vec![4, 3, 3], extras: 0 };
        let truth = |c: Candidate| {
            let p = shape.coordinates(c).unwrap();
            [0.0, 0.3, -0.2, 0.1][p[0]] + [0.0, -0.4, 0.2][p[1]] + [0.0, 0.05, 0.0][p[2]]
        };
        let design = super::super::design::screening(&shape, 3, 3, 6);
        let seen: Vec<Seen> = design
            .iter()
            .enumerate()
            .flat_map(|(block, cells)| cells.iter().map(move |&cell| (block, cell)))
            .map(|(block, cell)| Seen { cell, block, cost: truth(cell) })
            .collect();
        let model = Model::fit(&shape, &seen, 0.01).unwrap();
        let surface = model.mean();
        for cell in shape.candidates() {
            let error = surface.cost(cell).unwrap() - truth(cell);
            assert!(error.abs() < 0.04, "{cell:?}: {error}");
        }
        assert!((surface.main_effect(1, 1) + 0.4).abs() < 0.03);
        let mut rng = StdRng::seed_from_u64(1);
        let samples: Vec<f64> = (0..50).map(|_| model.sample(&mut rng).main_effect(1, 1)).collect();
        assert!((crate::statistics::median(&samples) + 0.4).abs() < 0.03);
        assert!(crate::statistics::robust_sigma(&samples) < 0.05);
    }

    #[test]
    fn an_outlier_does_not_spoil_the_fit() {
        let shape = Shape { levels: vec![2, 2], extras: 0 };
        let mut seen: Vec<Seen> = (0..24)
            .map(|i| Seen { cell: Candidate(i % 4), block: 0, cost: f64::from(i % 4) * 0.1 })
            .collect();
        seen[5].cost += 2.0;
        let surface = Model::fit(&shape, &seen, 0.02).unwrap().mean();
        assert!((surface.cost(Candidate(1)).unwrap() - 0.1).abs() < 0.03);
    }

    #[test]
    fn nothing_measured_gives_no_model() {
        let shape = Shape { levels: vec![2], extras: 1 };
        assert!(Model::fit(&shape, &[], 0.05).is_none());
        let outside = Seen { cell: Candidate(2), block: 0, cost: 1.0 };
        assert!(Model::fit(&shape, &[outside], 0.05).is_none());
    }
}
