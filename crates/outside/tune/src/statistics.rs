//! Robust estimates and intervals for a handful of noisy figures.
//!
//! Sources: P. J. Huber, "Robust Estimation of a Location Parameter", Annals of
//! Mathematical Statistics 35 (1964): the location below and its standard error.
//! G. K. Smyth, "Linear Models and Empirical Bayes Methods", Statistical Applications in
//! Genetics and Molecular Biology 3 (2004): the moderated t, by which few observations
//! borrow the variance of many. H. Robbins, "Statistical Methods Related to the Law of the
//! Iterated Logarithm", Annals of Mathematical Statistics 41 (1970): intervals that hold at
//! all times together.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Scales the median absolute deviation to the standard deviation of a normal variable.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Observations farther from the centre than this many standard deviations count as if they were at
/// that distance. With 2, 95 % efficiency is kept on clean normal data.
const CLIP: f64 = 2.0;

/// Steps after which a clipped variance is at its fixed point.
const VARIANCE_STEPS: usize = 25;

/// Mean square of a standard normal variable clipped like that.
const CLIPPED_SQUARE: f64 = 0.920_6;

/// Weight of Robbins' mixture, in observations. After about nine times as many, the intervals are
/// closest to those that hold only at one time.
const MIXTURE: f64 = 2.0;

/// Half the length of an interval, as a logarithm, from which on it says nothing: a factor of ten
/// to either side.
const NOTHING: f64 = std::f64::consts::LN_10;

/// The median: the middle value, or the mean of the two middle ones. NaN without values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Sample standard deviation; NaN for fewer than two values.
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

/// Robust standard deviation: the scaled median absolute deviation, corrected for small samples.
#[must_use]
pub fn robust_sigma(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let centre = median(values);
    let deviations: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    let n = values.len() as f64;
    MAD_TO_SIGMA * median(&deviations) * n / (n - 0.8)
}

/// An estimate with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Location {
    /// Huber's location.
    pub centre: f64,
    /// Variance of one observation about the centre, with clipped outliers.
    pub variance: f64,
    /// Number of observations.
    pub n: usize,
}

/// Huber's location with the given clipping scale `sigma`.
#[must_use]
pub fn location(values: &[f64], sigma: f64) -> Location {
    let n = values.len();
    let reach = CLIP * sigma;
    let mut centre = median(values);
    if reach > 0.0 && n > 2 {
        // The clipped mean is a contraction: 30 steps reach the fixed point.
        for _ in 0..30 {
            let clipped: f64 = values.iter().map(|v| (v - centre).clamp(-reach, reach)).sum();
            centre += clipped / n as f64;
        }
    } else if n > 0 {
        centre = values.iter().sum::<f64>() / n as f64;
    }
    let (mut squares, mut inside) = (0.0, 0.0);
    for deviation in values.iter().map(|v| v - centre) {
        let clipped = if reach > 0.0 { deviation.clamp(-reach, reach) } else { deviation };
        squares += clipped * clipped;
        inside += f64::from(u8::from(clipped == deviation));
    }
    // Huber's asymptotic variance: clipped squares over the squared share inside.
    let share = (inside / n.max(1) as f64).max(0.5);
    let variance = squares / (n.max(2) - 1) as f64 / (share * share);
    Location { centre, variance, n }
}

/// The common variance of samples about their own centres, with clipped outliers (Huber's "Proposal
/// 2"), and its degrees of freedom; (0, 0) if no sample has two values.
#[must_use]
pub fn common_variance(samples: &[Vec<f64>]) -> (f64, f64) {
    let samples: Vec<&Vec<f64>> = samples.iter().filter(|sample| sample.len() > 1).collect();
    let values: usize = samples.iter().map(|sample| sample.len()).sum();
    let df = (values - samples.len()) as f64;
    if samples.is_empty() {
        return (0.0, 0.0);
    }
    let centred = |sample: &&Vec<f64>| {
        let centre = median(sample);
        sample.iter().map(|value| (value - centre).abs()).collect::<Vec<f64>>()
    };
    let residuals: Vec<f64> = samples.iter().flat_map(centred).collect();
    // The mean is at least the variance without outliers, so the iteration starts from above.
    let mut variance = residuals.iter().map(|r| r * r).sum::<f64>() / df;
    for _ in 0..VARIANCE_STEPS {
        let sigma = variance.sqrt();
        let reach = CLIP * sigma;
        let squares = |sample: &&Vec<f64>| {
            let centre = location(sample, sigma).centre;
            let clipped = sample.iter().map(|v| (v - centre).clamp(-reach, reach).powi(2));
            clipped.sum::<f64>()
        };
        variance = samples.iter().map(squares).sum::<f64>() / (df * CLIPPED_SQUARE);
    }
    (variance, df)
}

/// The error of an interval about the mean of `n` observations, chosen so that the intervals for
/// all numbers of observations hold jointly with the error `alpha`.
#[must_use]
pub fn error_at(n: usize, alpha: f64) -> f64 {
    let n = n as f64;
    let reach = ((1.0 + MIXTURE / n) * ((n + MIXTURE) / (MIXTURE * alpha * alpha)).ln()).sqrt();
    2.0 * Normal::standard().sf(reach)
}

/// Half the width of the two-sided interval at level `alpha` about a [`Location`]. Its variance is
/// pooled with `prior_variance`, which counts as `prior_df` degrees of freedom.
#[must_use]
pub fn half_width(location: &Location, prior_variance: f64, prior_df: f64, alpha: f64) -> f64 {
    let own_df = location.n.saturating_sub(1) as f64;
    let df = own_df + prior_df;
    if location.n == 0 || df <= 0.0 {
        return f64::INFINITY;
    }
    let variance = (own_df * location.variance + prior_df * prior_variance) / df;
    student_quantile(1.0 - alpha / 2.0, df) * (variance / location.n as f64).sqrt()
}

/// Whether an interval of a ratio says anything; `half` is half its width, as a logarithm.
#[must_use]
pub fn is_informative(half: f64) -> bool {
    half < NOTHING
}

/// Quantile of Student's t.
#[must_use]
pub fn student_quantile(probability: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::INFINITY, |t| t.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn student_quantiles_match_the_tables() {
        for (p, df, t) in [(0.975, 4.0, 2.776), (0.975, 10.0, 2.228), (0.9995, 5.0, 6.869)] {
            assert!((student_quantile(p, df) - t).abs() < 1e-3, "{p} {df}");
        }
    }

    #[test]
    fn without_outliers_the_location_is_the_mean() {
        let clean = [1.0, 1.1, 0.9, 1.05, 0.95];
        let estimate = location(&clean, 0.1);
        assert!((estimate.centre - 1.0).abs() < 1e-12);
        assert!((estimate.variance - 0.00625).abs() < 1e-12);
    }

    #[test]
    fn an_outlier_moves_the_location_by_a_bounded_amount() {
        let near = location(&[1.0, 1.1, 0.9, 1.05, 5.0], 0.1).centre;
        let far = location(&[1.0, 1.1, 0.9, 1.05, 5000.0], 0.1).centre;
        assert!((near - far).abs() < 1e-9);
        assert!((near - 1.0).abs() < 0.08);
    }

    #[test]
    fn a_common_variance_is_that_of_clean_data_and_little_moved_by_outliers() {
        // Quantiles of the standard normal distribution, about several centres.
        let clean = |centre: f64| -> Vec<f64> {
            (1..40).map(|i| centre + Normal::standard().inverse_cdf(f64::from(i) / 40.0)).collect()
        };
        let samples = [clean(0.0), clean(5.0), vec![7.0]];
        let (variance, df) = common_variance(&samples);
        assert!((variance - 1.0).abs() < 0.1, "{variance}");
        assert_eq!(df, 76.0);
        let mut spoilt = samples;
        spoilt[0][3] = 1e6;
        let (moved, _) = common_variance(&spoilt);
        assert!(moved > variance && moved < 1.2 * variance, "{moved}");
        assert_eq!(common_variance(&[vec![1.0], vec![]]), (0.0, 0.0));
    }

    #[test]
    fn looking_at_every_time_costs_width_but_less_than_a_looks_share() {
        let errors: Vec<f64> = (1..1000).map(|n| error_at(n, 0.05)).collect();
        assert!(errors.iter().all(|error| *error > 0.0 && *error < 0.004));
        // Robbins' boundary at 16 observations, in standard errors.
        let reach = ((18.0 / 16.0) * (18.0_f64 / (2.0 * 0.0025)).ln()).sqrt();
        assert!((Normal::standard().cdf(-reach) * 2.0 - errors[15]).abs() < 1e-12);
        assert!(error_at(16, 0.05) > error_at(16, 0.01));
    }

    /// Of many walks without drift, at most the allowed share ever leaves its interval.
    #[test]
    fn intervals_of_all_times_hold_together() {
        use rand::SeedableRng;
        use rand_distr::{Distribution, StandardNormal};
        let mut rng = rand::rngs::SmallRng::seed_from_u64(1);
        let mut leaves = || {
            let mut sum = 0.0;
            (1..200).any(|n| {
                let step: f64 = StandardNormal.sample(&mut rng);
                sum += step;
                let reach = Normal::standard().inverse_cdf(1.0 - error_at(n, 0.1) / 2.0);
                sum.abs() / (n as f64).sqrt() > reach
            })
        };
        let left = (0..2000).filter(|_| leaves()).count();
        assert!((40..=200).contains(&left), "{left}");
    }

    #[test]
    fn the_interval_of_one_sample_is_the_classical_one() {
        let sample = Location { centre: 0.0, variance: 4.0, n: 16 };
        assert!((half_width(&sample, 0.0, 0.0, 0.05) - 2.131 * 0.5).abs() < 1e-3);
        assert_eq!(half_width(&Location { n: 1, ..sample }, 0.0, 0.0, 0.05), f64::INFINITY);
    }
}
