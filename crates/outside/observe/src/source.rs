//! Where sampled accesses come from: the best source that is there.

use std::io;
use std::time::Instant;

use numapilot_topology::CpuSet;
use thiserror::Error;

use crate::hint_faults::{Faulting, HintFaults};
use crate::lab::{LabError, LabPmu};
use crate::sample::{Sample, ServedBy};

/// DRAM samples that are wanted each time samples are taken: enough to decide by, and cheap.
const WANTED: u64 = 4000;
/// The sampling period that is begun with, and the bounds within which it is adapted.
const FIRST_PERIOD: u64 = 1000;
const PERIODS: std::ops::RangeInclusive<u64> = 50..=100_000_000;
/// How much the period may change at once.
const STEP: u64 = 4;

/// Why there are no samples.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The lab's PMU is there and cannot be used.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// No events.
    #[error(
        "page faults cannot be sampled: {0}; run as the target's user or as root, and see \
         numapilot doctor for perf_event_paranoid and the limit of open files"
    )]
    Denied(io::Error),
}

/// A source.
#[derive(Debug)]
pub enum Source {
    /// The PMU of the lab that this program runs in.
    Lab {
        /// It.
        pmu: LabPmu,
        /// Accesses that miss the first cache, for each sample.
        period: u64,
        /// Samples that were lost before.
        lost: u64,
    },
    /// Page faults.
    HintFaults {
        /// They.
        faults: HintFaults,
        /// When they began.
        began: Instant,
    },
}

impl Source {
    /// The best there is; it samples from now on.
    ///
    /// # Errors
    /// [`SourceError`] when there is none.
    pub fn choose(whose: &Faulting, cpus: &CpuSet) -> Result<Self, SourceError> {
        if let Some(pmu) = LabPmu::find()? {
            pmu.set_sample_period(FIRST_PERIOD);
            let lost = pmu.lost_samples();
            return Ok(Self::Lab { pmu, period: FIRST_PERIOD, lost });
        }
        let faults = HintFaults::open(whose, cpus).map_err(SourceError::Denied)?;
        Ok(Self::HintFaults { faults, began: Instant::now() })
    }

    /// As it is shown.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Lab { .. } => "the lab's PMU",
            Self::HintFaults { .. } => "NUMA hint faults",
        }
    }

    /// DRAM accesses that a sample stands for, in what is taken next; `None` where it cannot
    /// be told.
    #[must_use]
    pub const fn accesses_per_sample(&self) -> Option<f64> {
        match self {
            Self::Lab { period, .. } => Some(*period as f64),
            Self::HintFaults { .. } => None,
        }
    }

    /// The samples since the last time; those that a cache has served are left out.
    pub fn take(&mut self) -> Vec<Sample> {
        match self {
            Self::Lab { pmu, .. } => {
                pmu.samples().filter(|sample| sample.served_by == Some(ServedBy::Dram)).collect()
            }
            Self::HintFaults { faults, .. } => faults.samples(),
        }
    }

    /// Samples more or less often from now on, by how many were taken for one decision.
    pub fn adapt(&mut self, taken: usize) {
        if let Self::Lab { pmu, period, .. } = self {
            let next = adapted(*period, taken as u64);
            if next != *period {
                pmu.set_sample_period(next);
                *period = next;
            }
        }
    }

    /// Its clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Lab { pmu, .. } => pmu.time_ns(),
            Self::HintFaults { began, .. } => {
                u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
            }
        }
    }

    /// Samples that were lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match self {
            Self::Lab { pmu, lost, .. } => pmu.lost_samples().saturating_sub(*lost),
            Self::HintFaults { faults, .. } => faults.lost(),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Lab { pmu, .. } = self {
            pmu.set_sample_period(0);
        }
    }
}

/// The period by which about as many samples come as are wanted.
fn adapted(period: u64, taken: u64) -> u64 {
    // Half and double are near enough: a change forgets what lies in the rings.
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
        assert_eq!(adapted(1000, 100 * WANTED), 4000);
        assert_eq!(adapted(1000, 0), 250);
        assert_eq!(adapted(50, 0), 50);
    }

    proptest! {
        #[test]
        fn a_steady_rate_settles(rate in 1_000_000u64..1_000_000_000_000) {
            let mut period = FIRST_PERIOD;
            for _ in 0..20 {
                period = adapted(period, rate / period);
            }
            let settled = adapted(period, rate / period) == period;
            prop_assert!(settled, "{period}");
        }
    }
}
