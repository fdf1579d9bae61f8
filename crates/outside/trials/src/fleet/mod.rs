//! The figures of many files.
//!
//! A plan is compared with the default in the same round of the same run, so what differs between
//! hosts or hours cancels out. Where a plan was measured on several hosts, each host counts once: its
//! mean over the rounds. The interval is then that of the hosts, which also holds for another one of
//! the same kind. On one host it is that of its rounds, at every number of which the search could
//! have ended.

mod compare;
mod estimate;
mod files;
mod report;

pub use compare::{Change, Comparison, compare};
pub use estimate::{Basis, Estimate};
pub use files::{FleetError, Loaded, load};
pub use report::{Kind, PlanFigures, Report, report};

use serde::Serialize;

use numapilot_tune::evidence::Goal;

use crate::row::Row;

/// The plan that changes nothing.
const DEFAULT: &str = "default";
/// The runs that fill caches; they do not count.
const WARM_UP: &str = "warm-up";

/// What is measured: runs of the same command by the same metric can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Job {
    /// The hash of the command.
    pub command: String,
    /// The metric.
    pub metric: String,
    /// Whether more is better.
    pub maximize: bool,
}

impl Job {
    fn of(row: &Row) -> Self {
        Self {
            command: row.source.command.clone(),
            metric: row.source.metric.clone(),
            maximize: row.source.goal == Goal::Maximize,
        }
    }

    fn goal(&self) -> Goal {
        if self.maximize { Goal::Maximize } else { Goal::Minimize }
    }
}
