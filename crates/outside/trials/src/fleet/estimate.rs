//! The estimate of a ratio from differences of logarithms.

use std::collections::BTreeMap;

use numapilot_tune::evidence::Goal;
use numapilot_tune::statistics::{error_at, half_width, is_informative, location, robust_sigma};
use serde::Serialize;

/// The observations of which an interval consists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The hosts: it also holds for another host of the same kind.
    Hosts,
    /// The rounds of one host: it holds for that host.
    Rounds,
}

/// A ratio of two metrics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The ratio.
    pub ratio: f64,
    /// Its interval; absent if there are too few observations for one that says anything.
    pub confidence: Option<[f64; 2]>,
    /// The observations.
    pub basis: Basis,
    /// The number of hosts.
    pub hosts: usize,
    /// The number of differences on all hosts.
    pub rounds: usize,
}

impl Estimate {
    /// Estimates from the differences of costs on each host, at this error. `is_fixed` says that
    /// their number did not depend on them. `None` without a difference.
    pub(super) fn of(
        differences: &BTreeMap<&str, Vec<f64>>,
        goal: Goal,
        error: f64,
        is_fixed: bool,
    ) -> Option<Self> {
        let all: Vec<&Vec<f64>> =
            differences.values().filter(|values| !values.is_empty()).collect();
        let (basis, values) = match &all[..] {
            [] => return None,
            [one] => (Basis::Rounds, (*one).clone()),
            many => (Basis::Hosts, many.iter().map(|values| centre(values)).collect()),
        };
        let error = match basis {
            Basis::Rounds if !is_fixed => error_at(values.len(), error),
            _ => error,
        };
        let place = location(&values, robust_sigma(&values));
        let half = half_width(&place, 0.0, 0.0, error);
        let bounds = [place.centre - half, place.centre + half].map(|cost| goal.ratio(cost));
        let [low, high] = bounds;
        Some(Self {
            ratio: goal.ratio(place.centre),
            confidence: is_informative(half).then_some([low.min(high), low.max(high)]),
            basis,
            hosts: all.len(),
            rounds: all.iter().map(|values| values.len()).sum(),
        })
    }

    /// Estimates from the differences of costs of a fixed number of pairs on one host. `None` without
    /// a pair.
    #[must_use]
    pub fn of_pairs(differences: Vec<f64>, goal: Goal, error: f64) -> Option<Self> {
        Self::of(&BTreeMap::from([("", differences)]), goal, error, true)
    }

    /// How many observations there are of the basis.
    #[must_use]
    pub fn observations(&self) -> usize {
        match self.basis {
            Basis::Hosts => self.hosts,
            Basis::Rounds => self.rounds,
        }
    }

    /// Whether the interval shows that the first metric is better.
    pub(super) fn is_better(&self, goal: Goal) -> bool {
        self.confidence.is_some_and(|[low, high]| match goal {
            Goal::Minimize => high < 1.0,
            Goal::Maximize => low > 1.0,
        })
    }

    /// Whether the interval shows that the first metric is worse.
    pub(super) fn is_worse(&self, goal: Goal) -> bool {
        self.confidence.is_some_and(|[low, high]| match goal {
            Goal::Minimize => low > 1.0,
            Goal::Maximize => high < 1.0,
        })
    }
}

fn centre(values: &[f64]) -> f64 {
    location(values, robust_sigma(values)).centre
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(differences: &[(&'static str, &[f64])], goal: Goal) -> Option<Estimate> {
        let differences = differences.iter().map(|(host, values)| (*host, values.to_vec()));
        Estimate::of(&differences.collect(), goal, 0.05, true)
    }

    #[test]
    fn several_hosts_count_once_each() {
        // One host has many rounds, which say nothing about other hosts.
        let many = [0.0; 50];
        let two = of(&[("a", &many), ("b", &[-0.2, -0.2])], Goal::Minimize).unwrap();
        assert_eq!((two.basis, two.hosts, two.rounds), (Basis::Hosts, 2, 52));
        assert!((two.ratio - (-0.1_f64).exp()).abs() < 1e-9, "{two:?}");
        // Student's t of one degree of freedom: 12.7 times the standard error.
        let [low, high] = two.confidence.unwrap();
        assert!((high.ln() - (-0.1 + 12.706 * 0.1)).abs() < 1e-3 && low < 0.4, "{two:?}");
    }

    #[test]
    fn one_host_has_its_rounds() {
        let one = of(&[("a", &[-0.1, -0.12, -0.08, -0.1]), ("b", &[])], Goal::Minimize).unwrap();
        assert_eq!((one.basis, one.hosts, one.rounds), (Basis::Rounds, 1, 4));
        assert!(one.is_better(Goal::Minimize) && !one.is_better(Goal::Maximize));
        // A search that could have ended at any round needs a wider one.
        let differences = BTreeMap::from([("a", vec![-0.1, -0.12, -0.08, -0.1])]);
        let open = Estimate::of(&differences, Goal::Minimize, 0.05, false).unwrap();
        assert!(open.confidence.unwrap()[1] > one.confidence.unwrap()[1]);
        let single = of(&[("a", &[-0.1])], Goal::Minimize).unwrap();
        assert_eq!(single.confidence, None);
        // Two rounds that differ: the ends are more than ten times the ratio away.
        let two = of(&[("a", &[-0.4, 0.4])], Goal::Minimize).unwrap();
        assert_eq!((two.confidence, two.observations()), (None, 2));
        assert_eq!(of(&[], Goal::Minimize), None);
    }

    #[test]
    fn more_is_better_where_it_is() {
        let more = of(&[("a", &[-0.1, -0.12, -0.08])], Goal::Maximize).unwrap();
        assert!(more.ratio > 1.1 && more.is_better(Goal::Maximize), "{more:?}");
        let [low, high] = more.confidence.unwrap();
        assert!(low < more.ratio && more.ratio < high);
    }
}
