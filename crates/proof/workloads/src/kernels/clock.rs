//! The clock that measures kernels: simulated time in the lab, wall-clock time elsewhere.

use std::time::{Duration, Instant};

use numapilot_observe::lab::{LabPmu, MarkKind};
use serde::Serialize;

use super::KernelError;

/// A clock.
#[derive(Debug)]
pub enum Clock {
    /// Real time since the clock was made.
    Wall(Instant),
    /// The time of the emulated machine.
    Simulated(Box<LabPmu>),
}

/// The kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// Real.
    Wall,
    /// The lab's.
    Simulated,
}

impl Clock {
    /// The clock of this machine.
    ///
    /// # Errors
    /// [`KernelError::Lab`] in a lab whose PMU cannot be used.
    pub fn here() -> Result<Self, KernelError> {
        Ok(match LabPmu::find()? {
            Some(pmu) => Self::Simulated(Box::new(pmu)),
            None => Self::Wall(Instant::now()),
        })
    }

    /// The kind of time that it measures.
    #[must_use]
    pub fn time(&self) -> Time {
        match self {
            Self::Wall(_) => Time::Wall,
            Self::Simulated(_) => Time::Simulated,
        }
    }

    /// Time since some moment in the past.
    #[must_use]
    pub fn now(&self) -> Duration {
        match self {
            Self::Wall(since) => since.elapsed(),
            Self::Simulated(pmu) => Duration::from_nanos(pmu.time_ns()),
        }
    }

    /// Begins or ends a region of interest in the lab's report.
    pub fn mark(&self, kind: MarkKind, name: &str) {
        if let Self::Simulated(pmu) = self {
            // A missing region in the report does not justify ending a measurement.
            let _ = pmu.mark(kind, name);
        }
    }
}
