//! A figure that was measured several times.

use serde::Serialize;

/// Median, lowest and highest of the repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The figure.
    pub median: f64,
    /// Lowest repetition.
    pub low: f64,
    /// Highest repetition.
    pub high: f64,
}

impl Sample {
    /// The sample of these values; `None` when there are none, or when one is not a number.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, low, high })
    }

    /// The range of the repetitions, relative to the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.median > 0.0 { (self.high - self.low) / self.median } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let sample = Sample::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((sample.low, sample.median, sample.high), (1.0, 2.0, 3.0));
        assert_eq!(Sample::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(sample.spread(), 1.0);
        assert_eq!(Sample::of(Vec::new()), None);
        assert_eq!(Sample::of(vec![f64::NAN]), None);
    }
}
