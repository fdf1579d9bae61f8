//! Which plan is best on which kind of machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::estimate::Estimate;
use super::{DEFAULT, Job, WARM_UP};
use crate::row::{Row, STUDY};

/// What all runs show.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Joint confidence of the intervals of one job on one kind of machine.
    pub confidence: f64,
    /// Runs in all files.
    pub runs: usize,
    /// The jobs on each kind of machine.
    pub kinds: Vec<Kind>,
}

/// A job on one kind of machine.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    /// The model of the processor.
    pub processor: Option<String>,
    /// The hash of the topology.
    pub topology: Option<String>,
    /// The emulated machine, if it is one.
    pub emulated: Option<String>,
    /// The job.
    pub job: Job,
    /// The hosts.
    pub hosts: Vec<String>,
    /// The plans, the best first; without the default.
    pub plans: Vec<PlanFigures>,
    /// The plan that is shown to beat the default by most; absent if none is.
    pub best: Option<String>,
}

/// A plan on one kind of machine.
#[derive(Clone, Debug, Serialize)]
pub struct PlanFigures {
    /// The plan.
    pub plan: String,
    /// The metric divided by the default's of the same round; absent if they never met.
    pub estimate: Option<Estimate>,
    /// Whether the interval shows that it beats the default.
    pub is_better: bool,
    /// Runs.
    pub runs: usize,
    /// Of these, runs that failed.
    pub failed: usize,
    /// Why the last of them failed.
    pub reason: Option<String>,
}

type Group<'a> = (&'a Option<String>, &'a Option<String>, &'a Option<String>, Job);

/// Reports what these runs show, with this joint confidence (0 to 1).
#[must_use]
pub fn report(rows: &[Row], confidence: f64) -> Report {
    let mut groups: BTreeMap<Group<'_>, Vec<&Row>> = BTreeMap::new();
    let is_of_search = |row: &&Row| row.phase != WARM_UP && row.phase != STUDY;
    for row in rows.iter().filter(is_of_search) {
        let source = &row.source;
        let group = (&source.processor, &source.topology, &source.emulated, Job::of(row));
        groups.entry(group).or_default().push(row);
    }
    let kinds = groups.into_iter().map(|(group, rows)| kind(group, &rows, confidence));
    Report { confidence, runs: rows.len(), kinds: kinds.collect() }
}

fn kind((processor, topology, emulated, job): Group<'_>, rows: &[&Row], confidence: f64) -> Kind {
    let hosts: BTreeSet<&str> = rows.iter().map(|row| row.source.host.as_str()).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.plan.as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| *name != DEFAULT).collect();
    // All intervals hold together.
    let error = (1.0 - confidence) / names.len().max(1) as f64;
    let mut plans: Vec<PlanFigures> =
        names.iter().map(|name| figures(name, rows, &job, error)).collect();
    let cost = |plan: &PlanFigures| {
        plan.estimate.as_ref().map_or(f64::INFINITY, |estimate| job.goal().cost(estimate.ratio))
    };
    plans.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let best = plans.iter().find(|plan| plan.is_better).map(|plan| plan.plan.clone());
    Kind {
        processor: processor.clone(),
        topology: topology.clone(),
        emulated: emulated.clone(),
        hosts: hosts.into_iter().map(str::to_owned).collect(),
        plans,
        best,
        job,
    }
}

fn figures(plan: &str, rows: &[&Row], job: &Job, error: f64) -> PlanFigures {
    let goal = job.goal();
    let estimate = Estimate::of(&differences(plan, rows, job), goal, error, false);
    let of_plan = || rows.iter().filter(|row| row.plan == plan);
    let failures = || of_plan().filter(|row| row.value.is_none());
    PlanFigures {
        plan: plan.to_owned(),
        is_better: estimate.as_ref().is_some_and(|estimate| estimate.is_better(goal)),
        estimate,
        runs: of_plan().count(),
        failed: failures().count(),
        reason: failures().next_back().map(|row| row.outcome.clone()),
    }
}

/// For each host, the difference of the mean costs of the plan and the default in every round that
/// has both.
fn differences<'a>(plan: &str, rows: &[&'a Row], job: &Job) -> BTreeMap<&'a str, Vec<f64>> {
    let mut rounds: BTreeMap<(&str, &str, &str, i64), [Vec<f64>; 2]> = BTreeMap::new();
    for row in rows {
        let side = match row.plan.as_str() {
            DEFAULT => 0,
            name if name == plan => 1,
            _ => continue,
        };
        // A value that is not above 0 has no logarithm.
        let Some(value) = row.value.filter(|value| *value > 0.0 && value.is_finite()) else {
            continue;
        };
        let round = (row.source.host.as_str(), row.run.as_str(), row.phase.as_str(), row.round);
        rounds.entry(round).or_default()[side].push(job.goal().cost(value));
    }
    let mut differences: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((host, ..), [default, plan]) in rounds {
        if !default.is_empty() && !plan.is_empty() {
            differences.entry(host).or_default().push(mean(&plan) - mean(&default));
        }
    }
    differences
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::row::Source;

    /// Rounds of the default and two plans, of which the first takes `factor` times as long.
    pub fn rows(host: &str, topology: &str, factor: f64, rounds: i64) -> Vec<Row> {
        let source = Source {
            host: host.to_owned(),
            topology: Some(topology.to_owned()),
            processor: Some("P".to_owned()),
            command: "c".to_owned(),
            metric: "wall time".to_owned(),
            ..Source::default()
        };
        let row = |plan: &str, round: i64, value: Option<f64>| Row {
            run: host.to_owned(),
            source: source.clone(),
            plan: plan.to_owned(),
            phase: "race".to_owned(),
            round,
            value,
            outcome: if value.is_some() { "ok" } else { "timeout" }.to_owned(),
            ..Row::default()
        };
        let mut rows = vec![Row { phase: WARM_UP.to_owned(), ..row(DEFAULT, 0, Some(99.0)) }];
        for round in 0..rounds {
            // Hours differ by much more than plans, and a round by a little.
            let hour = 10.0 + 5.0 * (round % 3) as f64;
            let noise = 1.0 + 0.002 * (round % 2) as f64;
            rows.push(row(DEFAULT, round, Some(hour)));
            rows.push(row("good", round, Some(hour * factor * noise)));
            rows.push(row("bad", round, (round > 0).then_some(hour * 1.5 * noise)));
        }
        rows
    }

    #[test]
    fn each_kind_of_machine_has_its_best_plan() {
        let mut all = rows("a", "one", 0.8, 6);
        all.extend(rows("b", "one", 0.82, 6));
        all.extend(rows("e", "one", 0.81, 6));
        all.extend(rows("c", "two", 1.1, 6));
        let report = report(&all, 0.95);
        assert_eq!((report.runs, report.kinds.len()), (all.len(), 2));
        let [one, two] = &report.kinds[..] else { panic!("{report:?}") };
        assert_eq!((one.topology.as_deref(), one.hosts.len()), (Some("one"), 3));
        assert_eq!(one.best.as_deref(), Some("good"));
        let good = &one.plans[0];
        let estimate = good.estimate.as_ref().unwrap();
        assert!((estimate.ratio - 0.81).abs() < 0.005, "{estimate:?}");
        assert_eq!((estimate.hosts, estimate.rounds), (3, 18));
        let bad = &one.plans[1];
        assert_eq!((bad.runs, bad.failed, bad.reason.as_deref()), (18, 3, Some("timeout")));
        assert_eq!(two.best, None);
    }

    #[test]
    fn plans_that_never_met_the_default_have_no_ratio() {
        let mut all = rows("a", "one", 0.8, 3);
        all.retain(|row| row.plan != DEFAULT);
        let report = report(&all, 0.95);
        assert!(report.kinds[0].plans.iter().all(|plan| plan.estimate.is_none()));
        assert_eq!(report.kinds[0].best, None);
    }
}
