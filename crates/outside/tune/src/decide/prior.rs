//! What is expected of levels before any run, from other searches or from another source.
//!
//! The screening model takes an expectation as one of three explanations of a level's effect: it is
//! as expected, it has a size of its own, or it is zero. The share of expectations that are right is
//! inferred from the runs. So expectations that fit save runs, and those that do not fit are soon
//! ignored. They choose runs and never support the claim that a plan is better.

use serde::{Deserialize, Serialize};

/// Least standard deviation of an expectation: no two programs are alike.
const LEAST_DEVIATION: f64 = 0.02;

/// The expected effect of a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Cost with this level minus that with level 0 of the factor: a log ratio, less is better.
    pub cost: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

impl Expectation {
    /// Its variance, which is never that of certainty.
    #[must_use]
    pub fn variance(self) -> f64 {
        self.deviation.max(LEAST_DEVIATION).powi(2)
    }

    /// Combines the effects that several searches found, each with its own error. The programs
    /// differ, so the deviation includes how much the effects do. `None` without an effect.
    #[must_use]
    pub fn of_several(effects: &[Self]) -> Option<Self> {
        if effects.is_empty() {
            return None;
        }
        let weight = |effect: &Self| (effect.variance() + BETWEEN * BETWEEN).recip();
        let weights: f64 = effects.iter().map(weight).sum();
        let cost = effects.iter().map(|e| weight(e) * e.cost).sum::<f64>() / weights;
        let squares: f64 = effects.iter().map(|e| weight(e) * (e.cost - cost).powi(2)).sum();
        // What the effects show of their own difference counts more, the more effects there are.
        let between = (BETWEEN * BETWEEN + squares / weights * effects.len() as f64)
            / (effects.len() + 1) as f64;
        Some(Self { cost, deviation: (weights.recip() + between).sqrt() })
    }
}

/// How much the effects of a level differ between related programs, before any is compared.
const BETWEEN: f64 = 0.05;

/// What is expected before any run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// The expectations, by factor and level; missing ones are not expected to be anything.
    pub levels: Vec<Vec<Option<Expectation>>>,
    /// The share of expectations that are right, as a number of right ones and of wrong ones that
    /// were seen before.
    pub trust: (f64, f64),
}

impl Default for Prior {
    fn default() -> Self {
        Self { levels: Vec::new(), trust: (1.0, 0.5) }
    }
}

impl Prior {
    /// Whether nothing is expected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.iter().flatten().all(Option::is_none)
    }

    /// The expected effect of a level. Level 0 of a factor about which something is expected has
    /// none.
    #[must_use]
    pub fn of(&self, factor: usize, level: usize) -> Option<Expectation> {
        let levels = self.levels.get(factor)?;
        if level == 0 && levels.iter().any(Option::is_some) {
            return Some(Expectation { cost: 0.0, deviation: 0.0 });
        }
        levels.get(level).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_that_agree_make_a_sharper_expectation_than_effects_that_differ() {
        let of = |costs: &[f64]| {
            let effects: Vec<Expectation> =
                costs.iter().map(|&cost| Expectation { cost, deviation: 0.03 }).collect();
            Expectation::of_several(&effects).unwrap()
        };
        let (same, different) = (of(&[-0.3, -0.3, -0.3]), of(&[-0.6, -0.3, 0.0]));
        assert!((same.cost + 0.3).abs() < 1e-9 && (different.cost + 0.3).abs() < 1e-9);
        assert!(same.deviation < 0.06 && different.deviation > 0.2, "{same:?} {different:?}");
        assert!(of(&[-0.3]).deviation > same.deviation);
        assert_eq!(Expectation::of_several(&[]), None);
    }

    #[test]
    fn the_first_level_of_a_known_factor_is_the_reference() {
        let known = Some(Expectation { cost: -0.2, deviation: 0.1 });
        let prior = Prior { levels: vec![vec![None, known], vec![None, None]], ..Prior::default() };
        assert_eq!(prior.of(0, 0).map(|e| e.cost), Some(0.0));
        assert_eq!((prior.of(0, 1), prior.of(1, 0), prior.of(2, 0)), (known, None, None));
        assert!(!prior.is_empty() && Prior::default().is_empty());
    }
}
