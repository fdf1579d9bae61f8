//! A number of an experiment: a metric in some cells, optionally divided by its value in others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Levels by factor; a factor that is left out may have any level.
pub type At = BTreeMap<String, String>;

/// A number that is compared with the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The name of the metric.
    pub metric: String,
    /// The cells; their geometric mean is taken in each round.
    #[serde(default)]
    pub at: At,
    /// Whether the sum of the cells is taken instead of the mean.
    #[serde(default)]
    pub total: bool,
    /// Whose speed-up each cell is: the metric, a time, of the cell that has these levels in place
    /// of its own, divided by the cell's. Several cells have their arithmetic mean, as a paper's
    /// mean speed-up.
    pub speedup_from: Option<At>,
    /// The cells of the divisor, round by round.
    pub over: Option<At>,
    /// Name for display; the levels if left out.
    pub name: Option<String>,
}

impl Quantity {
    /// Combines the numbers of several cells.
    pub(super) fn of_cells(&self, numbers: &[f64]) -> f64 {
        match numbers {
            // Avoids the rounding of the logarithm.
            [one] => *one,
            _ if self.total => numbers.iter().sum(),
            _ if self.speedup_from.is_some() => numbers.iter().sum::<f64>() / numbers.len() as f64,
            _ => (numbers.iter().map(|n| n.ln()).sum::<f64>() / numbers.len() as f64).exp(),
        }
    }

    /// The name for display.
    #[must_use]
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| describe(&self.at))
    }
}

/// The levels as text, as in `interleave, 16`.
#[must_use]
pub fn describe(at: &At) -> String {
    at.values().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_cells_have_a_mean_or_a_sum() {
        let quantity = |text: &str| toml::from_str::<Quantity>(text).unwrap();
        assert_eq!(quantity("metric = 'm'").of_cells(&[0.1]), 0.1);
        assert!((quantity("metric = 'm'").of_cells(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
        assert_eq!(quantity("metric = 'm'\ntotal = true").of_cells(&[2.0, 8.0]), 10.0);
        let speedup = quantity("metric = 'm'\nspeedup_from = { threads = '1' }");
        assert_eq!(speedup.of_cells(&[2.0, 8.0]), 5.0);
    }
}
