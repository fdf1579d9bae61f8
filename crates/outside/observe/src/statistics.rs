//! Statistics of repeated measurements of one figure.

use serde::Serialize;
use statrs::statistics::{Data, OrderStatistics, Statistics};

/// Summary of several measurements of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of measurements.
    pub runs: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (n - 1); `None` for a single measurement.
    pub standard_deviation: Option<f64>,
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// Summarises values. Returns `None` without values, or if one is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        Some(Self {
            runs: values.len(),
            mean: values.mean(),
            standard_deviation: (values.len() > 1).then(|| values.std_dev()),
            median: Data::new(values.to_vec()).median(),
            min: values.min(),
            max: values.max(),
        })
    }

    /// Standard deviation divided by mean: the `±` of the printed table, and the imbalance of
    /// loads. `None` for a single value; 0 if all values are 0.
    #[must_use]
    pub fn relative_deviation(&self) -> Option<f64> {
        let deviation = self.standard_deviation?;
        Some(if deviation == 0.0 { 0.0 } else { deviation / self.mean.abs() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn textbook_values() {
        let s = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((s.mean, s.median, s.min, s.max), (5.0, 4.5, 2.0, 9.0));
        assert!((s.standard_deviation.unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_deviation_and_none_no_summary() {
        assert_eq!(Summary::of(&[3.0]).unwrap().standard_deviation, None);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn the_imbalance_of_equal_loads_is_zero_and_of_one_busy_node_of_four_is_two() {
        let imbalance = |loads: &[f64]| Summary::of(loads).unwrap().relative_deviation();
        assert_eq!(imbalance(&[5.0, 5.0, 5.0]), Some(0.0));
        assert_eq!(imbalance(&[0.0, 0.0]), Some(0.0));
        assert_eq!(imbalance(&[8.0, 0.0, 0.0, 0.0]), Some(2.0));
        assert_eq!(imbalance(&[8.0]), None);
    }

    proptest! {
        #[test]
        fn the_order_holds(values in proptest::collection::vec(-1e9f64..1e9, 1..40)) {
            let s = Summary::of(&values).unwrap();
            prop_assert!(s.min <= s.median && s.median <= s.max);
            prop_assert!(s.min - 1e-3 <= s.mean && s.mean <= s.max + 1e-3);
            prop_assert!(s.standard_deviation.unwrap_or(0.0) >= 0.0);
        }
    }
}
