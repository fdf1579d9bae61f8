//! Models how far runs lie from the surface: normal noise, and a share of disturbed runs that lie
//! farther off by unknown factors.
//!
//! The distribution is a mixture of normal ones about the same centre, each with twice the standard
//! deviation of the previous one, with inferred weights. Without disturbed runs it is close to
//! normal; with some, its tail is as heavy as Student's t or heavier. A run from a wide component
//! tells little about the surface.
//!
//! Sources: D. F. Andrews, C. L. Mallows, "Scale Mixtures of Normal Distributions", Journal of
//! the Royal Statistical Society B 36 (1974); M. West, "Outlier Models and Prior Distributions
//! in Bayesian Linear Regression", ibid. 46 (1984).

use rand::RngExt;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Gamma};

/// Components: the widest has 2^14 times the standard deviation of the noise.
const COMPONENTS: usize = 15;
/// Prior, in runs: undisturbed ones.
const CLEAN: f64 = 19.0;
/// Prior, in runs: disturbed ones of all wider components together.
const DISTURBED: f64 = 1.0;

/// How much less often a run is disturbed to be faster than to be slower.
const FASTER: f64 = 0.1;

/// The shares of the components.
pub struct Tails {
    shares: [f64; COMPONENTS],
    counts: [f64; COMPONENTS],
}

impl Tails {
    /// Begins with one disturbed run in twenty.
    pub fn new() -> Self {
        let mut shares = [0.0; COMPONENTS];
        for (component, share) in shares.iter_mut().enumerate() {
            *share = prior(component) / (CLEAN + DISTURBED);
        }
        Self { shares, counts: [0.0; COMPONENTS] }
    }

    /// Draws the precision of a run, relative to an undisturbed one, by how far the run lies off.
    /// `square` is its squared distance over the variance of the noise; `is_faster` says that it is
    /// better than expected, which a disturbance rarely makes it.
    pub fn draw(&mut self, square: f64, is_faster: bool, rng: &mut SmallRng) -> f64 {
        let mut chances = [0.0; COMPONENTS];
        // The density of a component is the fourth power of that of the next wider one, apart from
        // scales.
        let mut density = (-square * 0.25_f64.powi(WIDEST) / 2.0).exp();
        let mut precision = 0.5_f64.powi(WIDEST);
        let mut sum = 0.0;
        for (chance, share) in chances.iter_mut().zip(&self.shares).rev() {
            let side = if is_faster && precision < 1.0 { FASTER } else { 1.0 };
            *chance = side * share * precision * density;
            sum += *chance;
            precision *= 2.0;
            density *= density;
            density *= density;
        }
        let mut rest = rng.random::<f64>() * sum;
        let component = chances.iter().position(|chance| {
            rest -= chance;
            rest < 0.0
        });
        // A run beyond the reach of all components belongs to the widest.
        let component = component.unwrap_or(COMPONENTS - 1);
        self.counts[component] += 1.0;
        0.25_f64.powi(i32::try_from(component).unwrap_or(WIDEST))
    }

    /// Draws the shares, given the components that runs were assigned to since the last call.
    pub fn step(&mut self, rng: &mut SmallRng) {
        let mut sum = 0.0;
        for (component, (share, count)) in self.shares.iter_mut().zip(&self.counts).enumerate() {
            // Every shape above 0 gives a Gamma distribution.
            *share =
                Gamma::new(prior(component) + count, 1.0).map_or(0.0, |gamma| gamma.sample(rng));
            sum += *share;
        }
        self.shares.iter_mut().for_each(|share| *share /= sum);
        self.counts = [0.0; COMPONENTS];
    }
}

/// The index of the widest component.
const WIDEST: i32 = COMPONENTS as i32 - 1;

/// Prior number of runs of a component.
fn prior(component: usize) -> f64 {
    match component {
        0 => CLEAN,
        _ => DISTURBED / (COMPONENTS - 1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// Mean precision of runs at this distance in standard deviations.
    fn precision(distance: f64) -> f64 {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut tails = Tails::new();
        (0..1000).map(|_| tails.draw(distance * distance, false, &mut rng)).sum::<f64>() / 1000.0
    }

    #[test]
    fn what_lies_near_counts_in_full_and_what_lies_far_off_hardly() {
        assert!(precision(1.0) > 0.95);
        for distance in [10.0, 300.0, 16_000.0, 1e9] {
            let weighted = precision(distance) * distance * distance;
            // No run has more influence than a few runs at one standard deviation.
            assert!(precision(distance) < 0.1 && (weighted < 8.0 || distance > 1e8), "{weighted}");
        }
    }

    #[test]
    fn what_is_faster_than_expected_counts_more_than_what_is_slower() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut tails = Tails::new();
        let mut of =
            |is_faster| -> f64 { (0..1000).map(|_| tails.draw(12.0, is_faster, &mut rng)).sum() };
        let (faster, slower) = (of(true), of(false));
        assert!(faster > 1.1 * slower, "{faster} {slower}");
    }

    #[test]
    fn shares_follow_the_runs() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut tails = Tails::new();
        for _ in 0..100 {
            for run in 0..100 {
                tails.draw(if run % 5 == 0 { 1e4 } else { 0.5 }, false, &mut rng);
            }
            tails.step(&mut rng);
        }
        assert!((tails.shares[0] - 0.8).abs() < 0.1, "{:?}", tails.shares);
        assert!((tails.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
