//! The ways to place a kernel's memory and threads: its pathology and the known mitigations.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Where pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// As the pathology has it: on the node of whoever touches a page first.
    FirstTouch,
    /// Pages in turn over all nodes, by a policy set before the first touch.
    Interleave,
    /// Each thread touches first what falls to it.
    Local,
    /// The best of the others for this kernel.
    Best,
    /// Filled as in the pathology, then moved to the node of the thread that uses it.
    Collocate,
    /// One copy on each node.
    Replicate,
    /// Base pages instead of huge ones, each moved to the thread that uses it.
    Split,
    /// As many pages on each node as its controller has bandwidth left.
    WeightedInterleave,
    /// Moved after the threads whenever these move.
    Follow,
    /// Interleaved, but only when half of the work is done.
    Late,
    /// The buffer on the consumer's node.
    Consumer,
    /// Producer and consumer on one node, with the buffer.
    Together,
    /// The buffer moved to whoever uses it next.
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
        named.ok_or_else(|| format!("'{text}' is no placement"))
    }
}
