//! Samples of the lab's PMU at an adapted rate.

use crate::lab::{LabCounters, LabError, LabPmu, LabSampler};
use crate::sample::{Sample, ServedBy};

/// Desired number of DRAM samples for one decision: enough for the decision, and cheap.
const WANTED: u64 = 4000;
/// Accesses beyond the first level of cache for each sample: initial value and bounds.
const FIRST_PERIOD: u64 = 1000;
const PERIODS: std::ops::RangeInclusive<u64> = 20..=100_000_000;
/// Maximum factor by which the period changes at once.
const STEP: u64 = 8;

/// The PMU while it samples.
#[derive(Debug)]
pub struct LabSamples {
    sampler: LabSampler,
    period: u64,
    taken: u64,
    /// The counters when the interval began.
    counters: LabCounters,
    stopped: bool,
    /// Number of samples lost before this interval.
    lost_then: u64,
}

impl LabSamples {
    pub const NAME: &'static str = "the lab's PMU";

    /// # Errors
    /// As [`LabPmu::sample`].
    pub fn begin(pmu: LabPmu) -> Result<Self, LabError> {
        let counters = pmu.counters();
        let sampler = pmu.sample(FIRST_PERIOD)?;
        let period = FIRST_PERIOD;
        Ok(Self { sampler, period, taken: 0, counters, stopped: false, lost_then: 0 })
    }

    pub fn take_samples(&mut self, into: &mut Vec<Sample>) {
        let before = into.len();
        self.sampler.take_samples(|sample| {
            if sample.served_by == Some(ServedBy::Dram) {
                into.push(sample);
            }
        });
        self.taken += (into.len() - before) as u64;
    }

    pub fn end_interval(&mut self) -> f64 {
        let period = self.period;
        // Busy CPUs lose more samples than others, so the lost samples count too.
        let came = std::mem::take(&mut self.taken) + (self.sampler.lost() - self.lost_then);
        let next = adapted(period, came);
        if next != period {
            self.sampler.set_period(next);
            self.period = next;
        }
        period as f64
    }

    pub fn stop(&mut self) {
        self.stopped = true;
        self.sampler.set_period(0);
    }

    pub fn skip(&mut self) {
        match std::mem::take(&mut self.stopped) {
            true => self.sampler.set_period(self.period),
            false => self.sampler.skip(),
        }
        self.counters = self.sampler.lab().counters();
        self.lost_then = self.sampler.lost();
    }

    pub fn traffic(&self) -> Vec<Vec<f64>> {
        self.sampler.lab().counters().traffic_since(&self.counters)
    }

    pub fn time_ns(&self) -> u64 {
        self.sampler.lab().time_ns()
    }

    pub fn lost(&self) -> u64 {
        self.sampler.lost()
    }
}

/// The period that yields about the desired number of samples.
fn adapted(period: u64, taken: u64) -> u64 {
    if (WANTED / 2..=WANTED * 2).contains(&taken) {
        return period;
    }
    let right = u128::from(period) * u128::from(taken) / u128::from(WANTED);
    let right = u64::try_from(right).unwrap_or(u64::MAX);
    let near = right.clamp(period / STEP, period.saturating_mul(STEP));
    near.clamp(*PERIODS.start(), *PERIODS.end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_period_follows_the_samples() {
        assert_eq!(adapted(1000, WANTED), 1000);
        assert_eq!(adapted(1000, 3 * WANTED), 3000);
        assert_eq!(adapted(1000, 100 * WANTED), 8000);
        assert_eq!(adapted(1000, 0), 125);
        assert_eq!(adapted(*PERIODS.start(), 0), *PERIODS.start());
    }

    proptest! {
        #[test]
        fn a_steady_rate_settles(rate in 1_000_000u64..1_000_000_000_000) {
            let mut period = FIRST_PERIOD;
            for _ in 0..20 {
                period = adapted(period, rate / period);
            }
            prop_assert!(adapted(period, rate / period) == period, "{}", period);
        }
    }
}
