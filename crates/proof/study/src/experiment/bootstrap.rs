//! Medians with bootstrap intervals.
//!
//! Source: B. Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics 7
//! (1979). The interval is the percentile interval.

use numapilot_tune::statistics::median;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

/// Fewer values have no interval: two values say little about the spread.
const LEAST: usize = 3;
/// Number of resamples.
const DRAWS: usize = 2000;
/// Share of the medians outside the interval, at each end.
const TAIL: f64 = 0.025;

/// A median and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// The 95 % interval of the resampled medians; `None` for fewer than three values.
    pub interval: Option<[f64; 2]>,
    /// Number of values.
    pub n: usize,
}

impl Estimate {
    /// The estimate of some values; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let value = median(values);
        value.is_finite().then(|| Self { value, interval: interval(values), n: values.len() })
    }
}

/// The 95 % percentile interval of the median; `None` for fewer than three values.
#[must_use]
pub fn interval(values: &[f64]) -> Option<[f64; 2]> {
    if values.len() < LEAST {
        return None;
    }
    // A fixed seed: the same values always have the same interval.
    let mut rng = StdRng::seed_from_u64(1);
    let draw = |_| {
        let one = |_| values[rng.random_range(0..values.len())];
        median(&(0..values.len()).map(one).collect::<Vec<_>>())
    };
    let mut medians: Vec<f64> = (0..DRAWS).map(draw).collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[(share * (DRAWS - 1) as f64).round() as usize];
    Some([at(TAIL), at(1.0 - TAIL)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_interval_is_within_the_values_and_around_the_median(
            values in prop::collection::vec(-1e9f64..1e9, 3..20)
        ) {
            let [low, high] = interval(&values).unwrap();
            let middle = median(&values);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(least <= low && low <= middle && middle <= high && high <= most);
            prop_assert_eq!(interval(&values), Some([low, high]));
        }
    }

    #[test]
    fn few_values_have_no_interval_and_one_outlier_does_not_move_many() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[1.0, 2.0]), Some(Estimate { value: 1.5, interval: None, n: 2 }));
        let mut values = vec![1.0; 20];
        values.push(1000.0);
        assert_eq!(interval(&values), Some([1.0, 1.0]));
    }

    /// Over 300 samples of nine from a known distribution, the interval contains the true median in
    /// about 95 %: the percentile interval of a median is slightly conservative or slightly too
    /// short.
    #[test]
    fn the_interval_has_the_truth_in_it() {
        let mut rng = StdRng::seed_from_u64(7);
        let covers = (0..300).filter(|_| {
            let values: Vec<f64> = (0..9).map(|_| rng.random_range(0.0f64..1.0).powi(2)).collect();
            interval(&values).is_some_and(|[low, high]| (low..=high).contains(&0.25))
        });
        let share = covers.count() as f64 / 300.0;
        assert!((0.9..=1.0).contains(&share), "{share}");
    }
}
