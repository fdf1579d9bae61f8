//! The published rule: one core more at thmax, one core less at thmin, one step per tick.
//!
//! Source: prt-pro sections 3.1 and 4 (thmin = 10 %, thmax = 70 %).

use super::{Decision, Limits, Load, Thresholds, Why};
use crate::net::Verdict;

/// The published rule with its thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paper {
    thresholds: Thresholds,
}

impl Paper {
    /// The paper's thresholds.
    pub const THRESHOLDS: Thresholds = Thresholds { idle: 0.10, overload: 0.70 };

    /// The rule with these thresholds.
    #[must_use]
    pub const fn new(thresholds: Thresholds) -> Self {
        Self { thresholds }
    }

    /// Decides after a tick.
    #[must_use]
    pub fn decide(&self, load: &Load, cores: u32, limits: Limits) -> Decision {
        let utilisation = load.utilisation(cores);
        let verdict = Verdict::of(utilisation, self.thresholds.idle, self.thresholds.overload);
        let (wanted, why) = match verdict {
            Verdict::Idle => (cores.saturating_sub(1), Why::Unused),
            Verdict::Overload => (cores + 1, Why::Busy),
            Verdict::Stable if utilisation.is_none() => (cores, Why::NoSample),
            Verdict::Stable => (cores, Why::InBand),
        };
        Decision { verdict, wanted: wanted.clamp(limits.minimum, limits.maximum), why }
    }
}
