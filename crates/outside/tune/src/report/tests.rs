//! Reports of whole searches, and of none.

use super::*;
use crate::evidence::Order;
use crate::space::Facts;

fn settings(goal: Goal) -> Settings {
    Settings {
        goal,
        resolution: 0.02,
        confidence: 0.95,
        precision: 0.05,
        warm_up: 0,
        noise_runs: 4,
        max_runs: 60,
        max_seconds: None,
        seed: 1,
    }
}

fn space() -> Space {
    let facts = Facts {
        cpu_nodes: 1,
        memory_nodes: 1,
        allocators: vec!["jemalloc".into(), "mimalloc".into()],
        thp: None,
        numa_balancing: None,
    };
    Space::new(&facts, &[], vec![], |_| Ok(()))
}

/// A whole search: jemalloc has `factor` times the default's metric, mimalloc fails.
fn report(goal: Goal, factor: f64) -> Report {
    noisy_report(goal, factor, 0.01)
}

fn noisy_report(goal: Goal, factor: f64, noise: f64) -> Report {
    report_by(&settings(goal), factor, noise)
}

fn report_by(settings: &Settings, factor: f64, noise: f64) -> Report {
    let space = space();
    let mut evidence = Vec::new();
    let stop = loop {
        let orders = match decide::decide(&space.shape(), settings, &evidence) {
            decide::Decision::Run(orders) => orders,
            decide::Decision::Stop(stop) => break stop,
        };
        for order in orders {
            let wobble = 1.0 + noise * ((evidence.len() * 37 % 101) as f64 / 50.0 - 1.0);
            evidence.push(trial(order, factor, wobble));
        }
    };
    Report::new(&space, settings, &evidence, stop, "wall time".into())
}

fn trial(order: Order, factor: f64, wobble: f64) -> Trial {
    let outcome = match order.candidate.0 {
        0 => Outcome::Value(10.0 * wobble),
        1 => Outcome::Value(10.0 * factor * wobble),
        _ => Outcome::Failed(Failure::Signal(11)),
    };
    Trial { order, seconds: 1.0, peak_rss_bytes: None, outcome }
}

#[test]
fn a_faster_plan_wins() {
    let report = report(Goal::Minimize, 0.8);
    let best = report.best.unwrap();
    assert_eq!(best.plan, "jemalloc");
    let [low, high] = best.confidence.unwrap();
    assert!(low < 0.8 && 0.8 < high && high < 1.0, "{low} {high}");
    assert_eq!(report.stop, Stop::Decided);
    assert!((report.default.median.unwrap() - 10.0).abs() < 0.11);
    let statuses: Vec<Status> = report.plans.iter().map(|p| p.status).collect();
    assert_eq!(statuses, [Status::Best, Status::Default, Status::Failed]);
    assert_eq!(report.plans[2].reason.as_deref(), Some("killed by signal 11"));
    let effect = &report.effects[0];
    assert_eq!((effect.factor, effect.level.as_str()), ("allocator", "jemalloc"));
    assert!((effect.ratio - 0.8).abs() < 0.03, "{effect:?}");
    // Nothing worked with it, so nothing is known about its effect.
    assert_eq!(report.effects.len(), 1);
}

#[test]
fn a_winner_runs_on_until_its_interval_is_narrow() {
    let with = |precision| {
        let report = report_by(&Settings { precision, ..settings(Goal::Minimize) }, 0.8, 0.05);
        let [low, high] = report.best.unwrap().confidence.unwrap();
        assert_eq!(report.stop, Stop::Decided);
        (report.runs, (high / low).sqrt() - 1.0)
    };
    let ((few, wide), (many, narrow)) = (with(0.9), with(0.05));
    assert!(narrow <= 0.05 && narrow < wide && many > few, "{few} {wide} {many} {narrow}");
}

#[test]
fn a_slower_plan_does_not() {
    let report = report(Goal::Minimize, 1.2);
    assert!(report.best.is_none());
    assert_eq!(report.plans[0].status, Status::Default);
    assert_eq!(report.plans[1].status, Status::Dropped);
}

#[test]
fn what_is_not_shown_is_expected() {
    let report = noisy_report(Goal::Minimize, 0.9, 0.4);
    assert!(report.best.is_none());
    assert_eq!(report.expected.unwrap().plan, "jemalloc");
    assert_eq!(report.plans[0].status, Status::Expected);
    assert!(self::report(Goal::Minimize, 0.8).expected.is_none());
    assert!(self::report(Goal::Minimize, 1.2).expected.is_none());
}

#[test]
fn more_is_better_when_maximising() {
    let report = report(Goal::Maximize, 1.25);
    let best = report.best.unwrap();
    assert!((best.ratio.unwrap() - 1.25).abs() < 0.02);
    let [low, high] = best.confidence.unwrap();
    assert!(1.0 < low && low < high);
}

#[test]
fn nothing_measured_is_a_report_too() {
    let settings = settings(Goal::Minimize);
    let report = Report::new(&space(), &settings, &[], Stop::Interrupted, "wall time".into());
    assert!(report.best.is_none() && report.plans.is_empty() && report.noise.is_none());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["default"]["median"], serde_json::Value::Null);
    assert_eq!(json["best"], serde_json::Value::Null);
    assert_eq!(json["seconds"].to_string(), "0.0");
}
