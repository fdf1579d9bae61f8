//! A number of an experiment: a metric in some cells, over that in others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Levels by factor; factors that are left out may have any level.
pub type At = BTreeMap<String, String>;

/// A number that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Which metric.
    pub metric: String,
    /// In these cells: of each round, their geometric mean.
    #[serde(default)]
    pub at: At,
    /// Divided by the same in these cells, round by round.
    pub over: Option<At>,
    /// What readers call it; the levels when left out.
    pub name: Option<String>,
}

impl Quantity {
    /// What readers call it.
    #[must_use]
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| describe(&self.at))
    }
}

/// Levels as words: `interleave, 16`.
pub(super) fn describe(at: &At) -> String {
    at.values().map(String::as_str).collect::<Vec<_>>().join(", ")
}
