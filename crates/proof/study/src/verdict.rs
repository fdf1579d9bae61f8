//! How what came out compares with what was expected.

use std::fmt;

use serde::Serialize;

/// From the weakest to the strongest: of several, the first is that of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Another direction.
    NotReproduced,
    /// What should have given the value failed.
    Failed,
    /// There is no value: something is missing here.
    NotRunHere,
    /// There is no value: the run ended before it.
    NotReached,
    /// The values differ by too much among themselves to say.
    Undecided,
    /// The right direction, but another size.
    DirectionOnly,
    /// Within the band.
    Reproduced,
    /// There is nothing to compare with.
    Shown,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Self; 8] = [
        Self::Reproduced,
        Self::DirectionOnly,
        Self::NotReproduced,
        Self::Undecided,
        Self::Failed,
        Self::NotRunHere,
        Self::NotReached,
        Self::Shown,
    ];

    /// Whether whoever ran it has something to look into.
    #[must_use]
    pub fn is_bad(self) -> bool {
        matches!(self, Self::NotReproduced | Self::Failed)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reproduced => "reproduced",
            Self::DirectionOnly => "direction only",
            Self::NotReproduced => "not reproduced",
            Self::Undecided => "undecided",
            Self::Failed => "failed",
            Self::NotRunHere => "not run here",
            Self::NotReached => "not reached",
            Self::Shown => "shown",
        })
    }
}
