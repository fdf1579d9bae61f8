//! What is expected before any run: of levels, by one instrumented run of the program, and of whole
//! plans, by earlier searches.
//!
//! The screening model takes an expectation of a level as one of three explanations of its effect:
//! it is as expected, it has a size of its own, or it is zero. The share of expectations that are
//! right is inferred from the runs. What an earlier search predicts counts with a weight that is
//! inferred, too (`model/transfer`). So expectations that fit save runs, and those that do not fit
//! are soon ignored. They choose runs, never rule a plan out, and never support the claim that a
//! plan is better.

use serde::{Deserialize, Serialize};

use crate::shape::{Candidate, Shape};

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
}

/// What is expected, by factor and level; nothing about missing ones.
pub type Levels = Vec<Vec<Option<Expectation>>>;

/// What an earlier search predicts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Earlier {
    /// The search, in words.
    pub name: String,
    /// The costs of all cells of the present space, each relative to the default's
    /// ([`super::history::prediction`]).
    pub costs: Vec<f64>,
    /// Their standard deviations.
    pub deviations: Vec<f64>,
}

/// What is expected before any run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// The expectations.
    pub levels: Levels,
    /// The share of expectations that are right, as a number of right ones and of wrong ones that
    /// were seen before.
    pub trust: (f64, f64),
    /// What earlier searches predict.
    #[serde(default)]
    pub searches: Vec<Earlier>,
}

impl Default for Prior {
    fn default() -> Self {
        Self { levels: Vec::new(), trust: (1.0, 0.5), searches: Vec::new() }
    }
}

impl Prior {
    /// Whether nothing is expected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.searches.is_empty() && !self.expects_levels()
    }

    /// The cost of a plan relative to the default's, by all that is expected; 0 outside the grid.
    #[must_use]
    pub fn cost(&self, shape: &Shape, plan: Candidate) -> f64 {
        let Some(point) = shape.coordinates(plan) else { return 0.0 };
        let of_search = |search: &Earlier| search.costs.get(plan.0 as usize).copied();
        let of_searches: f64 = self.searches.iter().filter_map(of_search).sum();
        let levels = point.into_iter().enumerate();
        let of_levels = levels.filter_map(|(factor, level)| Some(self.of(factor, level)?.cost));
        of_searches / self.searches.len().max(1) as f64 + of_levels.sum::<f64>()
    }

    /// Whether anything is expected of levels.
    #[must_use]
    pub fn expects_levels(&self) -> bool {
        self.levels.iter().flatten().any(Option::is_some)
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
    fn the_cost_of_a_plan_is_what_searches_and_levels_say() {
        let shape = Shape { levels: vec![2, 2], extras: 1, ..Shape::default() };
        let known = Some(Expectation { cost: -0.5, deviation: 0.1 });
        let earlier = |cost| Earlier { costs: vec![0.0, 0.0, cost, 0.0], ..Earlier::default() };
        let prior = Prior {
            levels: vec![vec![None, known], vec![None, None]],
            searches: vec![earlier(0.2), earlier(0.4)],
            ..Prior::default()
        };
        assert!((prior.cost(&shape, Candidate(2)) - (0.3 - 0.5)).abs() < 1e-9);
        assert_eq!([0, 1, 4].map(|plan| prior.cost(&shape, Candidate(plan))), [0.0; 3]);
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
