//! What a run of a kernel yields; its JSON form is a contract with scripts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Place;
use super::clock::Time;
use crate::answer::hexadecimal;
use crate::outcome::Figures;

/// Pages of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodePages {
    /// Kernel id.
    pub node: u32,
    /// Base pages of the kernel's memory that were there at the end.
    pub pages: u64,
}

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// What was run.
    #[serde(flatten)]
    pub figures: Figures,
    /// The placement that `best` stood for, or the one asked for.
    pub cure: Place,
    /// Whose time `seconds` are.
    pub time: Time,
    /// How long the work took.
    pub seconds: f64,
    /// Items of work per second.
    pub items_per_second: f64,
    /// What the threads computed; an independent computation gave the same.
    #[serde(serialize_with = "hexadecimal")]
    pub checksum: u64,
    /// High-water mark of this process's resident memory.
    pub peak_rss_bytes: u64,
    /// Nodes of the machine that threads run on.
    pub nodes: usize,
    /// Where the pages were at the end.
    pub pages: Vec<NodePages>,
    /// The time that the machine description predicts.
    pub predicted_seconds: Option<f64>,
    /// What bounds the predicted time.
    pub predicted_bound: Option<String>,
    /// Why a figure is missing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unsupported: BTreeMap<&'static str, String>,
    /// What a reader of the figures should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Outcome {
    /// Measured over predicted time.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.predicted_seconds.filter(|p| *p > 0.0).map(|predicted| self.seconds / predicted)
    }
}
