//! Decides how many cores a target should have, by the paper's rule or by an improved one.

mod band;
mod paper;

pub use band::Band;
pub use paper::Paper;

use serde::Serialize;

use crate::net::Verdict;

/// The measured load of a target in one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Cores that it kept busy (CPU time over time): W. `None` without a sample.
    pub busy: Option<f64>,
    /// Threads that were ready to run and had no core, on average.
    pub waiting: Option<f64>,
    /// Share of the time in which at least one thread waited (PSI, `some`).
    pub pressure: Option<f64>,
    /// Memory traffic in bytes per second.
    pub traffic: Option<f64>,
}

impl Load {
    /// Busy share of `cores`: u.
    #[must_use]
    pub fn utilisation(&self, cores: u32) -> Option<f64> {
        self.busy.map(|busy| busy / f64::from(cores.max(1)))
    }
}

/// The range of cores that a target may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fewest, at least 1.
    pub minimum: u32,
    /// Most, at least the minimum.
    pub maximum: u32,
}

/// Shares of the allocated cores at and beyond which a target is idle or overloaded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// Idle: thmin.
    pub idle: f64,
    /// Overloaded: thmax.
    pub overload: f64,
}

/// Why a number of cores was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// There was no sample.
    #[default]
    NoSample,
    /// It has just started, and counts the cores.
    Starts,
    /// The load is between the thresholds.
    InBand,
    /// The cores are too busy.
    Busy,
    /// The cores are busy, but no thread waits for another.
    NobodyWaits,
    /// More cores did not help.
    NoGain,
    /// The cores are too idle.
    Unused,
    /// Threads would wait, as they did with so few cores before.
    Remembered,
    /// Threads wait although cores are idle: others use them.
    Contended,
    /// The cores are too idle, but whether threads wait was not counted in this tick.
    WaitingUnknown,
    /// Threads waited after cores were released, so they are given back.
    PutBack,
    /// A release was undone, so none is tried for some ticks.
    BackingOff,
}

impl Why {
    /// The text that is shown to the user.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoSample => "no sample",
            Self::Starts => "starts",
            Self::InBand => "in the band",
            Self::Busy => "busy",
            Self::NobodyWaits => "busy, but no thread waits",
            Self::NoGain => "more brought nothing",
            Self::Unused => "unused",
            Self::Remembered => "fewer were too few",
            Self::Contended => "others use them too",
            Self::WaitingUnknown => "waiting threads not counted",
            Self::PutBack => "fewer made threads wait",
            Self::BackingOff => "backing off",
        }
    }
}

/// The decision after a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The state of the target.
    pub verdict: Verdict,
    /// Cores that it should have.
    pub wanted: u32,
    /// The reason.
    pub why: Why,
}

impl Decision {
    /// The decision for a program that starts: it has all cores.
    #[must_use]
    pub const fn starts(cores: u32) -> Self {
        Self::stay(Verdict::Stable, cores, Why::Starts)
    }

    const fn stay(verdict: Verdict, cores: u32, why: Why) -> Self {
        Self { verdict, wanted: cores, why }
    }
}

/// One of the two rules.
#[derive(Clone, Debug)]
pub enum Controller {
    /// The paper's rule.
    Paper(Paper),
    /// The improved rule.
    Band(Band),
}

impl Controller {
    /// Decides after the first load of a program that has just started, with all cores. The
    /// published net begins with the fewest cores, because it would keep them down to a load of 10
    /// %.
    pub fn begin(&mut self, load: &Load, cores: u32, limits: Limits) -> Decision {
        match self {
            Self::Paper(_) => {
                Decision { verdict: Verdict::Idle, wanted: limits.minimum, why: Why::Starts }
            }
            Self::Band(band) => band.decide(load, cores, limits),
        }
    }

    /// Decides after a tick in which the target had `cores`.
    pub fn decide(&mut self, load: &Load, cores: u32, limits: Limits) -> Decision {
        match self {
            Self::Paper(paper) => paper.decide(load, cores, limits),
            Self::Band(band) => band.decide(load, cores, limits),
        }
    }
}

#[cfg(test)]
mod tests;
