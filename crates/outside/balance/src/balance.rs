//! The two ways of deciding behind one face.

use crate::adaptive::Adaptive;
use crate::decision::{Decision, Moved};
use crate::evidence::Evidence;
use crate::nodes::Nodes;
use crate::paper::Paper;

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
