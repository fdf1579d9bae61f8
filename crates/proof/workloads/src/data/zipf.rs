//! Zipf: key `k` (from 0) occurs with a probability proportional to `(k + 1)^-s`.
//!
//! Exact and in constant time by rejection-inversion (Hörmann, Derflinger: "Rejection-inversion to
//! generate variates from monotone discrete distributions", 1996). A uniform draw under the
//! integral H of the continuous density is inverted and rounded to an integer. The integer is
//! accepted when the draw lies within its own histogram bar. This needs no table of the
//! distribution, so a billion keys cost nothing.

use crate::random::Draws;

/// The study's exponent (section 4.2).
pub const EXPONENT: f64 = 0.5;

/// A Zipf distribution over `0..n`.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    exponent: f64,
    /// H(3/2) - h(1): the left end of the area, cut so that rank 1 is its own bar.
    area_left: f64,
    /// H(n + 1/2): the right end of the area.
    area_right: f64,
    /// Ranks this close to their inversion are accepted without evaluating H.
    squeeze: f64,
}

impl Zipf {
    /// `exponent` is at least 0 (0 = uniform), and `n` is at least 1.
    #[must_use]
    pub fn new(n: u64, exponent: f64) -> Self {
        let mut zipf = Self { n, exponent, area_left: 0.0, area_right: 0.0, squeeze: 0.0 };
        zipf.area_left = zipf.integral(1.5) - 1.0;
        zipf.area_right = zipf.integral(n as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws one key.
    pub fn sample(&self, draws: &mut Draws) -> u64 {
        loop {
            let u = self.area_right + draws.unit() * (self.area_left - self.area_right);
            let x = self.inverse(u);
            // A float beyond the range saturates, so the cast is safe before the clamp.
            let rank = ((x + 0.5) as u64).clamp(1, self.n);
            let k = rank as f64;
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - self.density(k) {
                return rank - 1;
            }
        }
    }

    /// h(x) = x^-s.
    fn density(&self, x: f64) -> f64 {
        power(x, -self.exponent)
    }

    /// H(x), an integral of h: (x^(1-s) - 1) / (1 - s), ln x for s = 1.
    fn integral(&self, x: f64) -> f64 {
        let e = 1.0 - self.exponent;
        if e == 0.0 { x.ln() } else { (power(x, e) - 1.0) / e }
    }

    /// The inverse of H.
    fn inverse(&self, u: f64) -> f64 {
        let e = 1.0 - self.exponent;
        // Rounding must not leave the domain of the root.
        if e == 0.0 { u.exp() } else { power((u * e + 1.0).max(0.0), 1.0 / e) }
    }
}

/// `x^e`. The powers with the study's exponent use square roots, which IEEE 754 rounds the same way
/// everywhere. The data set is therefore identical, bit for bit, on every machine.
fn power(x: f64, e: f64) -> f64 {
    if e == 0.5 {
        x.sqrt()
    } else if e == -0.5 {
        1.0 / x.sqrt()
    } else if e == 2.0 {
        x * x
    } else {
        x.powf(e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of `samples` draws against the exact probabilities, and its degrees of
    /// freedom.
    fn chi_square(n: u64, exponent: f64, samples: u64) -> (f64, f64) {
        let zipf = Zipf::new(n, exponent);
        let mut seen = vec![0u64; n as usize];
        for i in 0..samples {
            seen[zipf.sample(&mut Draws::of(11, i)) as usize] += 1;
        }
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        let statistic = seen.iter().zip(&weights).map(|(&seen, weight)| {
            let expected = samples as f64 * weight / total;
            (seen as f64 - expected).powi(2) / expected
        });
        (statistic.sum(), n as f64 - 1.0)
    }

    #[test]
    fn samples_follow_the_exact_distribution() {
        for (n, exponent) in
            [(2, 0.5), (100, 0.5), (1_000, 0.5), (500, 1.0), (500, 1.05), (50, 0.0)]
        {
            let (statistic, freedom) = chi_square(n, exponent, 1_000_000);
            // The statistic has mean f and variance 2 f. The seed is fixed, so this test either
            // always passes or always fails.
            let z = (statistic - freedom) / (2.0 * freedom).sqrt();
            assert!(z < 3.5, "n {n}, exponent {exponent}: {z:.1} deviations off");
        }
    }

    #[test]
    fn a_wrong_exponent_is_noticed() {
        let zipf = Zipf::new(100, 0.55);
        let first = (0..1_000_000).filter(|&i| zipf.sample(&mut Draws::of(11, i)) == 0).count();
        let total: f64 = (1..=100).map(|k| f64::from(k).powf(-0.5)).sum();
        let expected = 1e6 / total;
        assert!((first as f64 - expected).abs() > 10.0 * expected.sqrt());
    }

    #[test]
    fn a_single_key_is_the_only_one() {
        let zipf = Zipf::new(1, EXPONENT);
        assert!((0..1_000).all(|i| zipf.sample(&mut Draws::of(1, i)) == 0));
    }
}
