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
    /// Of each round, their sum instead.
    #[serde(default)]
    pub total: bool,
    /// Divided by the same in these cells, round by round.
    pub over: Option<At>,
    /// What readers call it; the levels when left out.
    pub name: Option<String>,
}

impl Quantity {
    /// One number of those of several cells.
    pub(super) fn of_cells(&self, numbers: &[f64]) -> f64 {
        match numbers {
            // Without the rounding of a logarithm.
            [one] => *one,
            _ if self.total => numbers.iter().sum(),
            _ => (numbers.iter().map(|n| n.ln()).sum::<f64>() / numbers.len() as f64).exp(),
        }
    }

    /// What readers call it.
    #[must_use]
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| describe(&self.at))
    }
}

/// Levels as words: `interleave, 16`.
#[must_use]
pub fn describe(at: &At) -> String {
    at.values().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_a_mean_or_a_sum() {
        let quantity = |text: &str| toml::from_str::<Quantity>(text).unwrap();
        assert_eq!(quantity("metric = 'm'").of_cells(&[0.1]), 0.1);
        assert!((quantity("metric = 'm'").of_cells(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
        assert_eq!(quantity("metric = 'm'\ntotal = true").of_cells(&[2.0, 8.0]), 10.0);
    }
}
