//! Models how the machine changes while a search runs: a random walk from run to run.
//!
//! Source: S. Frühwirth-Schnatter, "Data Augmentation and Dynamic Linear Models", Journal of
//! Time Series Analysis 15 (1994): a Kalman filter forwards, draws backwards.

use rand::rngs::SmallRng;

use super::{normal, variance};

/// Initial standard deviation of a step, as a share of the noise.
const STEP: f64 = 1.0 / 16.0;
/// The same in searches with few runs, which take longer.
const LONG_STEP: f64 = 0.15;
/// Variance of the start of the walk: large against every difference of logarithms.
const ANYWHERE: f64 = 1.0;

/// The walk.
pub struct Drift {
    levels: Vec<f64>,
    centre: f64,
    /// Variance of a step, and its initial value.
    step: f64,
    guess: f64,
    /// Mean and variance of each level, given the runs up to it.
    filtered: Vec<(f64, f64)>,
}

impl Drift {
    /// Begins without drift from `centre`, for this many runs, which may be long.
    pub fn new(centre: f64, runs: usize, noise: f64, are_long: bool) -> Self {
        let step = if are_long { LONG_STEP } else { STEP };
        let guess = (step * noise).powi(2);
        let levels = vec![centre; runs];
        Self { levels, centre, step: guess, guess, filtered: Vec::with_capacity(runs) }
    }

    /// Redraws the walk. `rest` is the part of the costs that neither the walk nor the other terms
    /// explain.
    pub fn step(&mut self, rest: &mut [f64], weights: &[f64], noise: f64, rng: &mut SmallRng) {
        self.filtered.clear();
        let (mut mean, mut spread) = (self.centre, ANYWHERE);
        for ((level, rest), weight) in self.levels.iter().zip(&*rest).zip(weights) {
            let gain = spread / (spread + noise / weight);
            mean += gain * (rest + level - mean);
            spread *= 1.0 - gain;
            self.filtered.push((mean, spread));
            spread += self.step;
        }
        let (mut later, mut squares): (Option<f64>, f64) = (None, 0.0);
        for (i, &(mean, spread)) in self.filtered.iter().enumerate().rev() {
            let level = match later {
                None => mean + spread.sqrt() * normal(rng),
                Some(later) => {
                    let gain = spread / (spread + self.step);
                    let level =
                        mean + gain * (later - mean) + (spread * (1.0 - gain)).sqrt() * normal(rng);
                    squares += (later - level).powi(2);
                    level
                }
            };
            rest[i] += self.levels[i] - level;
            self.levels[i] = level;
            later = Some(level);
        }
        let steps = self.levels.len().saturating_sub(1);
        self.step = variance(squares, steps, self.guess, rng);
    }
}
