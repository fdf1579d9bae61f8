//! A histogram of latencies with three digits, from a microsecond to a day, in little memory.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Digits that are kept.
const DIGITS: u8 = 3;
/// The longest latency that differs from longer ones, in microseconds.
const DAY: u64 = 86_400_000_000;
/// Points of a curve.
const CURVE: usize = 100;

/// A histogram of durations.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// In microseconds. Without memory there is no histogram, and therefore no figures.
    histogram: Option<Histogram<u64>>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { histogram: Histogram::new_with_max(DAY, DIGITS).ok() }
    }
}

impl Latencies {
    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// The latency, in seconds, that this share (0 to 1) of all does not exceed; `None` without
    /// any.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let histogram = self.histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(histogram.value_at_quantile(share) as f64 / 1e6)
    }

    /// The mean in seconds; `None` without any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let histogram = self.histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(histogram.mean() / 1e6)
    }

    /// Latency in seconds at evenly spread shares from 0 to 1.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let share = |at: usize| at as f64 / CURVE as f64;
        (0..=CURVE).filter_map(|at| Some((share(at), self.quantile(share(at))?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_keep_three_digits() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.quantile(0.5), latencies.mean()), (None, None));
        for ms in 1..=1000 {
            latencies.record(Duration::from_millis(ms));
        }
        assert_eq!(latencies.count(), 1000);
        for (share, seconds) in [(0.5, 0.5), (0.95, 0.95), (1.0, 1.0)] {
            let found = latencies.quantile(share).unwrap();
            assert!((found / seconds - 1.0).abs() < 1e-3, "{share}: {found}");
        }
        assert!((latencies.mean().unwrap() / 0.5005 - 1.0).abs() < 1e-3);
        assert_eq!(latencies.curve().len(), CURVE + 1);
    }
}
