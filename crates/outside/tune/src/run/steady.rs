//! Finds the steady part of the values that a load prints while it runs: caches fill, connections
//! are made and memory is faulted in at first, which a server does once and not in every second.
//!
//! Source: White, "An effective truncation heuristic for bias reduction in simulation output",
//! SIMULATION 69(6), 1997 (the marginal standard error rule, MSER). Of the first half of the values,
//! those are dropped without which the standard error of the mean of the rest is smallest:
//!
//! ```text
//!  d = argmin  S(d) / (n - d)^2     S(d): sum of the squared deviations of values d..n from their
//!    0<=d<=n/2                            own mean
//!
//!  values   12  61  88  99 101 100  98 102  99 101 100  99
//!           `---warm-up---' `----------steady----------'
//! ```
//!
//! The rule has no parameter that somebody would have to choose. Dropping a value pays only if it
//! is so far off that the rest is known better without it.

/// Fewest values from which a warm-up can be told: the half that always counts is five at least.
const FEWEST: usize = 10;

/// The number of values at the beginning that belong to the warm-up. With fewer than ten values, it
/// is 0.
pub fn warm_up(values: &[f64]) -> usize {
    let n = values.len();
    if n < FEWEST {
        return 0;
    }
    let error = |dropped: usize| {
        let rest = &values[dropped..];
        let mean = mean(rest);
        let squares: f64 = rest.iter().map(|value| (value - mean).powi(2)).sum();
        squares / (rest.len() as f64).powi(2)
    };
    // Of equal errors the first counts, so that nothing is dropped in vain.
    let best = (0..=n / 2).map(|dropped| (dropped, error(dropped)));
    best.reduce(|best, next| if next.1 < best.1 { next } else { best }).map_or(0, |best| best.0)
}

/// The arithmetic mean. Progress lines come at regular intervals, so that the mean of their rates is
/// the rate of the whole time.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_warm_up_is_dropped() {
        let values = [12.0, 61.0, 88.0, 99.0, 101.0, 100.0, 98.0, 102.0, 99.0, 101.0, 100.0, 99.0];
        assert_eq!(warm_up(&values), 3);
        assert!((mean(&values[3..]) - 99.9).abs() < 0.1);
    }

    #[test]
    fn steady_values_are_all_kept() {
        assert_eq!(warm_up(&[100.0; 30]), 0);
        let alternating: Vec<f64> = (0..30).map(|i| 100.0 + f64::from(i % 2)).collect();
        assert_eq!(warm_up(&alternating), 0);
    }

    /// A disturbance at the end is no warm-up, nor is one in the middle.
    #[test]
    fn a_later_disturbance_is_kept() {
        let mut values = [100.0; 20];
        values[19] = 10.0;
        assert_eq!(warm_up(&values), 0);
        values[19] = 100.0;
        values[12] = 10.0;
        assert_eq!(warm_up(&values), 0);
    }

    #[test]
    fn few_values_are_all_kept() {
        assert_eq!(warm_up(&[]), 0);
        assert_eq!(warm_up(&[1.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0]), 0);
    }

    proptest! {
        /// Half of the values counts in any case, and neither unit nor offset change the rule.
        #[test]
        fn at_most_half_is_dropped(values in prop::collection::vec(0.0..1e6, 0..60)) {
            let dropped = warm_up(&values);
            prop_assert!(dropped <= values.len() / 2);
            let scaled: Vec<f64> = values.iter().map(|value| 4.0 * value).collect();
            prop_assert_eq!(warm_up(&scaled), dropped);
        }
    }
}
