//! How many cores a target should have: the paper's rule, and a better one.

mod band;
mod paper;

pub use band::Band;
pub use paper::Paper;

use serde::Serialize;

use crate::net::Verdict;

/// What was seen of a target in one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Cores that it kept busy (CPU time over time): W. `None` for no sample.
    pub busy: Option<f64>,
    /// Threads that were ready to run and had no core, on average.
    pub waiting: Option<f64>,
    /// Share of the time in which at least one thread waited (PSI, `some`).
    pub pressure: Option<f64>,
    /// Memory traffic in bytes per second.
    pub traffic: Option<f64>,
}

impl Load {
    /// Busy share of so many cores: u.
    #[must_use]
    pub fn utilisation(&self, cores: u32) -> Option<f64> {
        self.busy.map(|busy| busy / f64::from(cores.max(1)))
    }
}

/// Cores that a target may have.
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
    /// It was started a moment ago, and counts its cores.
    Starts,
    /// The load is between the thresholds.
    InBand,
    /// The cores are too busy.
    Busy,
    /// The cores are busy, and no thread waits for one more.
    NobodyWaits,
    /// More cores brought nothing.
    NoGain,
    /// The cores have too little to do.
    Unused,
    /// Threads would wait, as they did with so few cores before.
    Remembered,
    /// Threads wait although cores are idle: others use them.
    Contended,
    /// Threads waited after cores were released: they are given back.
    PutBack,
    /// A release was put back: for some ticks none is tried.
    BackingOff,
}

impl Why {
    /// As it is shown.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoSample => "no sample",
            Self::Starts => "starts",
            Self::InBand => "in the band",
            Self::Busy => "busy",
            Self::NobodyWaits => "busy, but nobody waits",
            Self::NoGain => "more brought nothing",
            Self::Unused => "unused",
            Self::Remembered => "fewer were too few",
            Self::Contended => "others use them too",
            Self::PutBack => "fewer made threads wait",
            Self::BackingOff => "backing off",
        }
    }
}

/// What follows from a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The state of the target.
    pub verdict: Verdict,
    /// Cores that it should have.
    pub wanted: u32,
    /// Why.
    pub why: Why,
}

impl Decision {
    /// A program that starts has all cores.
    #[must_use]
    pub const fn starts(cores: u32) -> Self {
        Self::stay(Verdict::Stable, cores, Why::Starts)
    }

    const fn stay(verdict: Verdict, cores: u32, why: Why) -> Self {
        Self { verdict, wanted: cores, why }
    }
}

/// Either rule.
#[derive(Clone, Debug)]
pub enum Controller {
    /// The paper's.
    Paper(Paper),
    /// The better one.
    Band(Band),
}

impl Controller {
    /// What follows from the first load of a program that has just started, with all cores. The
    /// published net begins with the fewest: it would keep what 10 % of the load asks for.
    pub fn begin(&mut self, load: &Load, cores: u32, limits: Limits) -> Decision {
        match self {
            Self::Paper(_) => {
                Decision { verdict: Verdict::Idle, wanted: limits.minimum, why: Why::Starts }
            }
            Self::Band(band) => band.decide(load, cores, limits),
        }
    }

    /// What follows from the load of a tick in which the target had `cores`.
    pub fn decide(&mut self, load: &Load, cores: u32, limits: Limits) -> Decision {
        match self {
            Self::Paper(paper) => paper.decide(load, cores, limits),
            Self::Band(band) => band.decide(load, cores, limits),
        }
    }
}

#[cfg(test)]
mod tests;
