//! The ways to place a kernel's memory and threads: its pathology, and the known mitigations.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Where pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// As in the pathology: on the node of the thread that touches a page first.
    FirstTouch,
    /// Pages on all nodes in turn, by a policy set before the first touch.
    Interleave,
    /// Each thread first touches its own data.
    Local,
    /// The best of the other placements for this kernel.
    Best,
    /// Filled as in the pathology, then moved to the node of the thread that uses it.
    Collocate,
    /// One copy on each node.
    Replicate,
    /// Base pages instead of huge ones, each moved to the thread that uses it.
    Split,
    /// On each node a number of pages that matches the free bandwidth of its controller.
    WeightedInterleave,
    /// Moved after the threads whenever they move.
    Follow,
    /// Interleaved, but only after half of the work.
    Late,
    /// The buffer on the consumer's node.
    Consumer,
    /// Producer and consumer on one node, with the buffer.
    Together,
    /// The buffer is moved to the node that uses it next.
    Bounce,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::FirstTouch,
        Self::Interleave,
        Self::Local,
        Self::Best,
        Self::Collocate,
        Self::Replicate,
        Self::Split,
        Self::WeightedInterleave,
        Self::Follow,
        Self::Late,
        Self::Consumer,
        Self::Together,
        Self::Bounce,
    ];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstTouch => "first-touch",
            Self::Interleave => "interleave",
            Self::Local => "local",
            Self::Best => "best",
            Self::Collocate => "collocate",
            Self::Replicate => "replicate",
            Self::Split => "split",
            Self::WeightedInterleave => "weighted-interleave",
            Self::Follow => "follow",
            Self::Late => "late",
            Self::Consumer => "consumer",
            Self::Together => "together",
            Self::Bounce => "bounce",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|place| place.name() == text);
        named.ok_or_else(|| format!("'{text}' is not a placement"))
    }
}
