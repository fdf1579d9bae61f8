//! The two ways of deciding behind one interface.

use serde::{Deserialize, Serialize};

use crate::adaptive::{Adaptive, Settings};
use crate::decision::{Decision, Moved};
use crate::evidence::Evidence;
use crate::nodes::Nodes;
use crate::paper::{Paper, Spread};

/// The mode of balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Setup {
    /// Carrefour as published.
    Paper {
        /// How the node of an interleaved page is chosen.
        spread: Spread,
        /// Seed of its random stream.
        seed: u64,
    },
    /// The default mode.
    Default(Settings),
}

impl Setup {
    /// The initial state for a process.
    #[must_use]
    pub fn begin(&self, nodes: &Nodes) -> Balance {
        match *self {
            Self::Paper { spread, seed } => Balance::Paper(Box::new(Paper::new(spread, seed))),
            Self::Default(settings) => {
                Balance::Default(Box::new(Adaptive::new(nodes.len(), settings)))
            }
        }
    }
}

/// The state of balancing one process.
#[derive(Debug)]
pub enum Balance {
    /// Carrefour as published.
    Paper(Box<Paper>),
    /// The default mode.
    Default(Box<Adaptive>),
}

impl Balance {
    /// Decides by the evidence of an interval that ended at `now_ns`, on any clock that does not go
    /// back.
    pub fn decide(&mut self, nodes: &Nodes, evidence: &Evidence, now_ns: u64) -> Decision {
        match self {
            Self::Paper(paper) => paper.decide(nodes, evidence),
            Self::Default(adaptive) => adaptive.decide(nodes, evidence, now_ns),
        }
    }

    /// Records which pages were moved by the orders of the last decision, and how long that took.
    pub fn done(&mut self, moved: &[Moved], took_ns: u64, now_ns: u64) {
        match self {
            // The published rules remember no page beyond its interval.
            Self::Paper(_) => {}
            Self::Default(adaptive) => adaptive.done(moved, took_ns, now_ns),
        }
    }
}
