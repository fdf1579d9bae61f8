//! The measurements so far: decisions and reports depend on nothing else.
//!
//! Trials are appended in the order in which they ran and never changed, so the list on disk is the
//! whole state of a search.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::shape::Candidate;

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// To fill caches; its figure is not used.
    WarmUp,
    /// The default against itself.
    Noise,
    /// Balanced design over all factors.
    Screen,
    /// Combinations that the screening finds promising.
    Refine,
    /// Rounds of all surviving plans.
    Race,
    /// Rounds of the race's leader and the default alone.
    Final,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WarmUp => "warm-up",
            Self::Noise => "noise",
            Self::Screen => "screening",
            Self::Refine => "refinement",
            Self::Race => "race",
            Self::Final => "final",
        })
    }
}

/// A run to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// Its purpose.
    pub phase: Phase,
    /// Number of the block (in a race: the round) within the phase, from 0. Runs of one block are
    /// made one right after the other and compared with each other.
    pub block: u32,
    /// The plan.
    pub candidate: Candidate,
}

/// A run that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The order.
    #[serde(flatten)]
    pub order: Order,
    /// When it began, in milliseconds since 1970 (UTC); absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ms: Option<u64>,
    /// Wall time of the run, whatever the metric.
    pub seconds: f64,
    /// Peak resident memory, if the run ended by itself.
    pub peak_rss_bytes: Option<u64>,
    /// The outcome.
    pub outcome: Outcome,
    /// The values of which the figure is the mean, if they were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Values>,
    /// What the run left behind.
    #[serde(default, skip_serializing_if = "Remains::is_empty")]
    pub remains: Remains,
}

/// The values that a load printed while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    /// All of them.
    pub found: usize,
    /// Those of the warm-up, at the beginning, which do not count.
    pub dropped: usize,
}

/// The output and processes that a run left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remains {
    /// The last lines of its output, if it failed.
    pub output: String,
    /// Processes that still ran after it and were ended: name and process number.
    pub ended: Vec<String>,
    /// Shared memory that outlived its processes and was removed: number and size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

impl Remains {
    /// Names of the programs that were ended, without process numbers.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.ended
            .iter()
            .map(|ended| ended.rsplit_once(" (").map_or(ended.as_str(), |(name, _)| name))
    }

    /// Whether it left nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.output.is_empty() && self.ended.is_empty() && self.removed.is_empty()
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The metric's value, above 0.
    Value(f64),
    /// The run failed, so its figures do not count.
    Failed(Failure),
    /// The run was cut short, because its progress showed that it could not become the best. Its
    /// metric would have been at least this, had the rest run as fast as in the best run.
    CutShort(f64),
}

/// Why a run's figures do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The program ended with a status other than 0.
    Exit(i32),
    /// A signal ended the program.
    Signal(i32),
    /// The program took longer than `--timeout`.
    Timeout,
    /// The server did not get ready, or ended too early: the text says which.
    Server(String),
    /// The load on a server failed: the text says how.
    Load(String),
    /// The text that `--check` matches differs from the default's.
    WrongAnswer {
        /// What the default printed.
        expected: String,
        /// What this plan printed.
        got: String,
    },
    /// A limit was exceeded: the text says which and by how much.
    OverLimit(String),
    /// The output has no usable number for the metric, or no text for the check.
    NoFigure(String),
    /// The plan could not be applied: the text says why.
    NotApplied(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::Timeout => f.write_str("timeout"),
            Self::WrongAnswer { expected, got } => {
                write!(f, "wrong answer: {got:?} instead of {expected:?}")
            }
            Self::Server(text) => write!(f, "the server {text}"),
            Self::Load(text) => write!(f, "the load failed: {text}"),
            Self::OverLimit(text) => write!(f, "over the limit: {text}"),
            Self::NoFigure(text) | Self::NotApplied(text) => f.write_str(text),
        }
    }
}

/// Which direction of the metric is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Less is better (time).
    #[default]
    Minimize,
    /// More is better (throughput).
    Maximize,
}

impl Goal {
    /// The natural logarithm of the value, negated if more is better, so that less is better.
    /// Differences of costs are log-ratios.
    #[must_use]
    pub fn cost(self, value: f64) -> f64 {
        match self {
            Self::Minimize => value.ln(),
            Self::Maximize => -value.ln(),
        }
    }

    /// The ratio of two metrics whose costs differ by `difference`.
    #[must_use]
    pub fn ratio(self, difference: f64) -> f64 {
        match self {
            Self::Minimize => difference.exp(),
            Self::Maximize => (-difference).exp(),
        }
    }
}

impl Failure {
    /// Whether one such failure is conclusive, because it does not happen by chance.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::WrongAnswer { .. } | Self::NotApplied(_))
    }
}

impl Trial {
    /// A run that left nothing behind, and whose peak memory is unknown.
    #[must_use]
    pub fn new(order: Order, seconds: f64, outcome: Outcome) -> Self {
        let remains = Remains::default();
        let (began_ms, peak_rss_bytes, values) = (None, None, None);
        Self { order, began_ms, seconds, peak_rss_bytes, outcome, values, remains }
    }

    /// The metric's value, if it gave one.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Value(value) => Some(value),
            Outcome::Failed(_) | Outcome::CutShort(_) => None,
        }
    }

    /// Its cost, if it gave a value.
    #[must_use]
    pub fn cost(&self, goal: Goal) -> Option<f64> {
        self.value().map(|value| goal.cost(value))
    }

    /// Why it failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Value(_) | Outcome::CutShort(_) => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }

    /// The least that its cost would have been, if it was cut short.
    #[must_use]
    pub fn bound(&self, goal: Goal) -> Option<f64> {
        match self.outcome {
            Outcome::CutShort(bound) => Some(goal.cost(bound)),
            Outcome::Value(_) | Outcome::Failed(_) => None,
        }
    }
}
