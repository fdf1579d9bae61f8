//! The two ways of deciding behind one face.

use serde::{Deserialize, Serialize};

use crate::adaptive::{Adaptive, Settings};
use crate::decision::{Decision, Moved};
use crate::evidence::Evidence;
use crate::nodes::Nodes;
use crate::paper::{Paper, Spread};

/// How pages are to be balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Setup {
    /// Carrefour as published.
    Paper {
        /// How interleaved pages find their node.
        spread: Spread,
        /// Of its random stream.
        seed: u64,
    },
    /// What is better today.
    Default(Settings),
}

impl Setup {
    /// Begins with a process.
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

/// How the pages of one process are balanced, with all that is remembered of it.
#[derive(Debug)]
pub enum Balance {
    /// Carrefour as published.
    Paper(Box<Paper>),
    /// What is better today.
    Default(Box<Adaptive>),
}

impl Balance {
    /// What follows from the evidence of an interval that ended at `now_ns`, on any clock
    /// that does not go back.
    pub fn decide(&mut self, nodes: &Nodes, evidence: &Evidence, now_ns: u64) -> Decision {
        match self {
            Self::Paper(paper) => paper.decide(nodes, evidence),
            Self::Default(adaptive) => adaptive.decide(nodes, evidence, now_ns),
        }
    }

    /// Tells which pages were moved by the orders of the last decision, and how long that
    /// took.
    pub fn done(&mut self, moved: &[Moved], took_ns: u64, now_ns: u64) {
        match self {
            // It remembers no page beyond its interval.
            Self::Paper(_) => {}
            Self::Default(adaptive) => adaptive.done(moved, took_ns, now_ns),
        }
    }
}
