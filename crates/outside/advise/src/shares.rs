//! Shares of time, with the uncertainty of samples.

use serde::Serialize;
use statrs::distribution::{Beta, ContinuousCDF};

/// A gain that is at most this share of the time is not worth a search: `tune` calls plans within
/// 1 % equal, too (`--resolution`).
pub const AT_LEAST: f64 = 0.01;

/// Error on each side of an interval.
const ERROR: f64 = 0.025;

/// A share with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The share that was seen.
    pub value: f64,
    /// Lower end.
    pub least: f64,
    /// Upper end.
    pub most: f64,
}

impl Share {
    /// The share of `count` among `all` samples, with the exact binomial interval (Clopper and
    /// Pearson). Nothing is known without samples.
    #[must_use]
    pub fn of(count: u64, all: u64) -> Self {
        if all == 0 {
            return Self { value: 0.0, least: 0.0, most: 1.0 };
        }
        let (hits, misses) = (count.min(all) as f64, all.saturating_sub(count) as f64);
        let quantile = |a: f64, b: f64, p: f64| {
            Beta::new(a, b).map_or(f64::NAN, |beta| beta.inverse_cdf(p)).clamp(0.0, 1.0)
        };
        Self {
            value: hits / all as f64,
            least: if hits == 0.0 { 0.0 } else { quantile(hits, misses + 1.0, ERROR) },
            most: if misses == 0.0 { 1.0 } else { quantile(hits + 1.0, misses, 1.0 - ERROR) },
        }
    }
}

/// Standard deviation of loads, divided by their mean; `None` without load.
pub fn imbalance(loads: &[f64]) -> Option<f64> {
    let count = loads.len() as f64;
    let mean = loads.iter().sum::<f64>() / count;
    if loads.is_empty() || mean <= 0.0 {
        return None;
    }
    let variance = loads.iter().map(|load| (load - mean).powi(2)).sum::<f64>() / count;
    Some(variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_intervals() {
        // Rule of three, and a table of Clopper and Pearson for 10 of 100.
        let none = Share::of(0, 1000);
        assert!(none.value == 0.0 && none.least == 0.0);
        assert!((none.most - 0.00368).abs() < 1e-4, "{none:?}");
        let some = Share::of(10, 100);
        assert!(
            (some.least - 0.0490).abs() < 1e-3 && (some.most - 0.1762).abs() < 1e-3,
            "{some:?}"
        );
        assert_eq!(Share::of(7, 7).most, 1.0);
        assert_eq!(Share::of(0, 0), Share { value: 0.0, least: 0.0, most: 1.0 });
    }

    #[test]
    fn imbalance_of_loads() {
        assert_eq!(imbalance(&[2.0, 2.0]), Some(0.0));
        assert_eq!(imbalance(&[4.0, 0.0]), Some(1.0));
        assert_eq!(imbalance(&[0.0, 0.0]), None);
        assert_eq!(imbalance(&[]), None);
    }
}
