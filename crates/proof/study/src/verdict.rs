//! How a result compares with the expectation.

use std::fmt;

use serde::Serialize;

/// Verdicts from the weakest to the strongest. The weakest verdict of several is that of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The direction is wrong.
    NotReproduced,
    /// The run that should give the value failed.
    Failed,
    /// There is no value, because something is missing on this machine.
    NotRunHere,
    /// There is no value, because the run ended before it.
    NotReached,
    /// The interval includes a limit between two verdicts, or there are too few values.
    Undecided,
    /// The direction is right, but the size is not.
    DirectionOnly,
    /// The value is within the band.
    Reproduced,
    /// There is nothing to compare with.
    Shown,
}

impl Verdict {
    /// All verdicts, best first.
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

    /// Whether the verdict calls for an investigation.
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
