//! One set of runs against another, host by host.

use std::collections::{BTreeMap, BTreeSet};

use numapilot_tune::statistics::median;
use serde::Serialize;

use super::estimate::Estimate;
use super::{Job, WARM_UP};
use crate::row::Row;

/// What has changed from the first set to the second.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Joint confidence of the intervals of one job.
    pub confidence: f64,
    /// The plans of every job that both sets have on at least one host.
    pub changes: Vec<Change>,
    /// Hosts that only the first set has.
    pub only_first: Vec<String>,
    /// Hosts that only the second set has.
    pub only_second: Vec<String>,
}

/// A plan in both sets.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The job.
    pub job: Job,
    /// The plan.
    pub plan: String,
    /// The second metric divided by the first; each host counts once, by its medians. With one host
    /// there is no interval: what differs between two days does not show in the runs of one.
    pub estimate: Estimate,
    /// Whether the interval shows that the second set is better.
    pub is_better: bool,
    /// Whether the interval shows that it is worse.
    pub is_worse: bool,
}

type Costs<'a> = BTreeMap<(Job, &'a str), BTreeMap<&'a str, Vec<f64>>>;

/// Compares two sets of runs with this joint confidence (0 to 1).
#[must_use]
pub fn compare(first: &[Row], second: &[Row], confidence: f64) -> Comparison {
    let (costs, later) = (costs(first), costs(second));
    let mut paired = Vec::new();
    for ((job, plan), hosts) in &costs {
        let Some(others) = later.get(&(job.clone(), *plan)) else { continue };
        let both = hosts.iter().filter_map(|(host, costs)| Some((*host, costs, others.get(host)?)));
        let differences: BTreeMap<&str, Vec<f64>> =
            both.map(|(host, a, b)| (host, vec![median(b) - median(a)])).collect();
        if !differences.is_empty() {
            paired.push((job, *plan, differences));
        }
    }
    let changes = paired.iter().filter_map(|(job, plan, differences)| {
        let plans = paired.iter().filter(|(other, ..)| other == job).count();
        let error = (1.0 - confidence) / plans as f64;
        let estimate = Estimate::of(differences, job.goal(), error, true)?;
        Some(Change {
            job: (*job).clone(),
            plan: (*plan).to_owned(),
            is_better: estimate.is_better(job.goal()),
            is_worse: estimate.is_worse(job.goal()),
            estimate,
        })
    });
    let hosts = |rows: &[Row]| -> BTreeSet<String> {
        rows.iter().map(|row| row.source.host.clone()).collect()
    };
    let (a, b) = (hosts(first), hosts(second));
    Comparison {
        confidence,
        changes: changes.collect(),
        only_first: a.difference(&b).cloned().collect(),
        only_second: b.difference(&a).cloned().collect(),
    }
}

fn costs(rows: &[Row]) -> Costs<'_> {
    let mut costs = Costs::new();
    for row in rows.iter().filter(|row| row.phase != WARM_UP) {
        let Some(value) = row.value.filter(|value| *value > 0.0 && value.is_finite()) else {
            continue;
        };
        let job = Job::of(row);
        let cost = job.goal().cost(value);
        let hosts = costs.entry((job, row.plan.as_str())).or_default();
        hosts.entry(row.source.host.as_str()).or_default().push(cost);
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::rows;
    use super::*;

    /// As [`rows`], on a host that is `speed` times as slow.
    fn scaled(host: &str, speed: f64, factor: f64) -> Vec<Row> {
        let mut rows = rows(host, "one", factor, 6);
        rows.iter_mut().for_each(|row| row.value = row.value.map(|value| value * speed));
        rows
    }

    #[test]
    fn hosts_are_paired_however_they_differ() {
        let set = |hosts: &[(&str, f64)], factor| -> Vec<Row> {
            hosts.iter().flat_map(|(host, speed)| scaled(host, *speed, factor)).collect()
        };
        let first = set(&[("a", 1.0), ("b", 7.0), ("c", 30.0), ("old", 1.0)], 0.8);
        let second = set(&[("a", 0.9), ("b", 6.29), ("c", 27.1), ("new", 1.0)], 0.8);
        let comparison = compare(&first, &second, 0.95);
        assert_eq!(comparison.only_first, ["old"]);
        assert_eq!(comparison.only_second, ["new"]);
        assert_eq!(comparison.changes.len(), 3);
        for change in &comparison.changes {
            assert!((change.estimate.ratio - 0.9).abs() < 0.01, "{change:?}");
            assert!(change.is_better && !change.is_worse, "{change:?}");
            assert_eq!(change.estimate.hosts, 3);
        }
        let back = compare(&second, &first, 0.95);
        assert!(back.changes.iter().all(|change| change.is_worse));
    }

    #[test]
    fn one_host_has_no_interval() {
        let comparison = compare(&scaled("a", 1.0, 0.8), &scaled("a", 0.5, 0.8), 0.95);
        assert_eq!(comparison.changes[0].estimate.confidence, None);
        assert!(!comparison.changes[0].is_better);
        let nothing = compare(&scaled("a", 1.0, 0.8), &scaled("b", 0.5, 0.8), 0.95);
        assert!(nothing.changes.is_empty());
    }
}
