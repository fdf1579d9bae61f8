//! Changes of the free parameters: those that no description of a machine states. A figure that
//! depends on them says more about the model than about the machine.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The variable from which `lab run` takes variations.
pub const VARIABLE: &str = "NUMAPILOT_LAB_VARY";

/// A free parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// Number of independent misses that overlap.
    MemoryLevelParallelism,
    /// How far the emulated CPUs may be apart in simulated time.
    Quantum,
    /// Speed of the guest's clocks.
    TimeScale,
    /// Divisor of the capacities of caches and TLBs.
    CacheScale,
}

impl Parameter {
    const ALL: [Self; 4] =
        [Self::MemoryLevelParallelism, Self::Quantum, Self::TimeScale, Self::CacheScale];

    fn name(self) -> &'static str {
        match self {
            Self::MemoryLevelParallelism => "memory-level-parallelism",
            Self::Quantum => "quantum",
            Self::TimeScale => "time-scale",
            Self::CacheScale => "cache-scale",
        }
    }
}

/// A free parameter times a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// The parameter.
    pub parameter: Parameter,
    /// The factor, from 0.1 to 10.
    pub factor: f64,
}

impl Variation {
    /// Half and double of every parameter.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of = |parameter| [0.5, 2.0].map(|factor| Self { parameter, factor });
        Parameter::ALL.into_iter().flat_map(of).collect()
    }
}

/// Why a text is not a variation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VariationError {
    /// There is no such parameter.
    #[error("'{name}' is not a free parameter of the model; these are {}", names())]
    Parameter {
        /// The name that was given.
        name: String,
    },
    /// The factor is no number in its range.
    #[error("'{0}' is not NAME=FACTOR with a factor from 0.1 to 10; write quantum=2")]
    Factor(String),
}

fn names() -> String {
    Parameter::ALL.map(Parameter::name).join(", ")
}

impl FromStr for Variation {
    type Err = VariationError;

    fn from_str(text: &str) -> Result<Self, VariationError> {
        let bad = || VariationError::Factor(text.to_owned());
        let (name, factor) = text.split_once('=').ok_or_else(bad)?;
        let parameter = Parameter::ALL.into_iter().find(|parameter| parameter.name() == name);
        let parameter =
            parameter.ok_or_else(|| VariationError::Parameter { name: name.to_owned() })?;
        let factor: f64 = factor.parse().map_err(|_| bad())?;
        if (0.1..=10.0).contains(&factor) { Ok(Self { parameter, factor }) } else { Err(bad()) }
    }
}

/// Writes `quantum=2`.
impl fmt::Display for Variation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.parameter.name(), self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variation_survives_a_round_trip() {
        let all = Variation::all();
        assert_eq!(all.len(), 8);
        for variation in all {
            assert_eq!(variation.to_string().parse(), Ok(variation));
        }
        let error = |text: &str| text.parse::<Variation>().unwrap_err();
        assert!(error("latency=2").to_string().contains("quantum, time-scale"));
        for bad in ["", "quantum", "quantum=", "quantum=0", "quantum=NaN", "quantum=11"] {
            assert_eq!(error(bad), VariationError::Factor(bad.to_owned()));
        }
    }
}
