//! Tests of reports of whole searches, and of an empty one.

use super::*;
use crate::decide::{self, Decision};
use crate::evidence::{Failure, Order};
use crate::space::Facts;

fn settings(goal: Goal) -> Settings {
    Settings { noise_runs: 4, ..Settings::simple(goal, 60) }
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
            Decision::Run(orders) => orders,
            Decision::Stop(stop) => break stop,
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
    Trial::new(order, 1.0, outcome)
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
    // No run worked with it, so its effect is unknown.
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
fn a_gain_within_the_resolution_is_not_expected() {
    let report = noisy_report(Goal::Minimize, 0.995, 0.4);
    assert!(report.best.is_none() && report.expected.is_none(), "{:?}", report.expected);
    assert!(report.plans.iter().all(|plan| plan.status != Status::Expected));
}

/// In one of two rounds jemalloc takes a fifth of the default's time, in the other as long.
#[test]
fn a_plan_whose_interval_is_not_known_is_not_expected() {
    let mut evidence = Vec::new();
    for (block, times) in [[10.0, 2.0], [10.0, 10.0]].into_iter().enumerate() {
        for (candidate, value) in times.into_iter().enumerate() {
            let candidate = Candidate(candidate as u32);
            let order = Order { phase: Phase::Race, block: block as u32, candidate };
            evidence.push(Trial::new(order, 1.0, Outcome::Value(value)));
        }
    }
    let settings = settings(Goal::Minimize);
    let report = Report::new(&space(), &settings, &evidence, Stop::MaxTime, "t".into());
    assert_eq!(report.plans.len(), 2);
    let jemalloc = report.plans.iter().find(|plan| plan.plan == "jemalloc").unwrap();
    assert!(jemalloc.ratio.unwrap() < 0.6 && jemalloc.confidence.is_none(), "{jemalloc:?}");
    assert_eq!(jemalloc.status, Status::Tied);
    assert!(report.best.is_none() && report.expected.is_none());
}

/// jemalloc gains 10 %, and with huge pages 0.1 % more; nothing is proved yet.
#[test]
fn of_plans_expected_to_be_equal_the_simplest_is_named() {
    let facts = Facts {
        cpu_nodes: 1,
        memory_nodes: 1,
        allocators: vec!["jemalloc".into()],
        thp: Some("madvise".into()),
        numa_balancing: None,
    };
    let space = Space::new(&facts, &[], vec![], |_| Ok(()));
    let mut evidence = Vec::new();
    for block in 0..3 {
        for candidate in space.shape().candidates() {
            let gain = match space.plan(candidate).to_string().as_str() {
                "jemalloc" => 0.9,
                plan if plan.starts_with("jemalloc") => 0.899,
                _ => 1.0,
            };
            let turn = if candidate.0 % 2 == 0 { 1.0 } else { -1.0 };
            let turn = if candidate == DEFAULT { 0.0 } else { turn };
            let wobble = (turn * 0.1 * (f64::from(block) - 1.0)).exp();
            let order = Order { phase: Phase::Race, block, candidate };
            evidence.push(Trial::new(order, 1.0, Outcome::Value(gain * wobble)));
        }
    }
    let settings = settings(Goal::Minimize);
    let report = Report::new(&space, &settings, &evidence, Stop::Interrupted, "t".into());
    assert!(report.best.is_none(), "{:?}", report.best);
    assert_eq!(report.expected.map(|plan| plan.plan).as_deref(), Some("jemalloc"));
}

#[test]
fn what_never_ran_and_what_was_left_running_is_in_the_report() {
    let order = Order { phase: Phase::Noise, block: 0, candidate: DEFAULT };
    let mut left = Trial::new(order, 1.0, Outcome::Value(1.0));
    left.remains.ended = vec!["server (7)".into()];
    let other = Trial { remains: left.remains.clone(), ..left.clone() };
    let settings = settings(Goal::Minimize);
    let evidence = [left, other];
    let report = Report::new(&space(), &settings, &evidence, Stop::Interrupted, "t".into());
    assert_eq!(report.never_ran, ["jemalloc", "mimalloc"]);
    assert_eq!(report.left_running, ["server".to_owned()].into());
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

/// Trials of a large space in which the rounds of the race contradict all other runs by chance, and
/// are too few to decide.
#[test]
fn no_plan_is_named_that_is_shown_to_be_worse_than_the_default_or_another() {
    let mut facts = Facts { cpu_nodes: 1, memory_nodes: 1, ..Facts::default() };
    facts.allocators =
        ["jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "numapilot"].map(str::to_owned).to_vec();
    facts.thp = Some("madvise".to_owned());
    let space = Space::new(&facts, &[], vec![], |_| Ok(()));
    let shape = space.shape();
    for goal in [Goal::Minimize, Goal::Maximize] {
        for seed in 0..4 {
            let settings = Settings { seed, warm_up: 1, ..Settings::simple(goal, 60) };
            let mut evidence: Vec<Trial> = Vec::new();
            while let Decision::Run(orders) = decide::decide(&shape, &settings, &evidence) {
                for order in orders {
                    // The noise is 60 %, and in the race every plan but the default is slow.
                    let luck = (evidence.len() as f64 * 12.9898 + seed as f64 * 78.233).sin();
                    let raced = order.phase == Phase::Race && order.candidate != DEFAULT;
                    let cost = 0.6 * luck + if raced { 0.6 } else { 0.0 };
                    let value = goal.ratio(cost);
                    evidence.push(Trial::new(order, 1.0, Outcome::Value(value)));
                    if evidence.len().is_multiple_of(6) {
                        let stop = Stop::Interrupted;
                        let metric = "t".into();
                        claims_agree(&Report::new(&space, &settings, &evidence, stop, metric));
                    }
                }
            }
        }
    }
}

/// Checks that the table, the plan named and the figures agree.
fn claims_agree(report: &Report) {
    let named = |status| report.plans.iter().filter(|p| p.status == status).collect::<Vec<_>>();
    let (best, expected) = (named(Status::Best), named(Status::Expected));
    assert!(best.len() + expected.len() <= 1, "{best:?} {expected:?}");
    assert_eq!(report.best.as_ref().map(|p| &p.plan), best.first().map(|p| &p.plan));
    assert_eq!(report.expected.as_ref().map(|p| &p.plan), expected.first().map(|p| &p.plan));
    let cost = |plan: &PlanFigures| plan.ratio.map(|ratio| report.goal.cost(ratio));
    if let [best] = best[..] {
        let interval = best.confidence.unwrap();
        assert!(interval.iter().all(|&end| report.goal.cost(end) < 0.0), "{best:?}");
    }
    if let [expected] = expected[..] {
        let named = cost(expected).unwrap();
        let resolution = report.resolution.ln_1p();
        assert!(named < -resolution, "{expected:?}");
        let is_better = |other: f64| other < named - resolution;
        let better = report.plans.iter().find(|p| cost(p).is_some_and(is_better));
        assert!(better.is_none(), "{expected:?} is expected to be best beside {better:?}");
        assert_eq!(report.plans[0].plan, expected.plan);
    }
}

/// If plans differ only in a setting without effect, the one that does not change it is named.
#[test]
fn of_equal_plans_the_simplest_is_named() {
    let facts = Facts {
        cpu_nodes: 1,
        memory_nodes: 1,
        allocators: vec!["jemalloc".into(), "numapilot".into(), "mimalloc".into()],
        thp: Some("madvise".into()),
        numa_balancing: None,
    };
    let space = Space::new(&facts, &[], vec![], |_| Ok(()));
    for seed in 0..6 {
        let settings = Settings { seed, warm_up: 1, ..Settings::simple(Goal::Minimize, 120) };
        let mut evidence: Vec<Trial> = Vec::new();
        while let Decision::Run(orders) = decide::decide(&space.shape(), &settings, &evidence) {
            for order in orders {
                let luck = (evidence.len() as f64 * 12.9898 + seed as f64 * 78.233).sin();
                let is_fast = space.plan(order.candidate).to_string().starts_with("numapilot");
                let value = if is_fast { 0.7 } else { 1.0 } * (0.01 * luck).exp();
                evidence.push(Trial::new(order, 1.0, Outcome::Value(value)));
            }
        }
        let report = Report::new(&space, &settings, &evidence, Stop::Decided, "t".into());
        assert_eq!(report.best.map(|best| best.plan).as_deref(), Some("numapilot"), "seed {seed}");
    }
}

fn five_allocators() -> Space {
    let facts = Facts {
        cpu_nodes: 1,
        memory_nodes: 1,
        allocators: ["jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "numapilot"]
            .map(str::to_owned)
            .to_vec(),
        thp: Some("madvise".into()),
        numa_balancing: None,
    };
    Space::new(&facts, &[], vec![], |_| Ok(()))
}

/// A program whose figure does not depend on the plan, with one disturbed run.
#[test]
fn one_disturbed_run_makes_no_effect_certain() {
    let space = five_allocators();
    for (max_runs, disturbed) in [(40, 12), (108, 12), (108, 0), (108, 20)] {
        for seed in 1..4 {
            let settings =
                Settings { seed, warm_up: 1, ..Settings::simple(Goal::Minimize, max_runs) };
            let mut evidence: Vec<Trial> = Vec::new();
            while let Decision::Run(orders) = decide::decide(&space.shape(), &settings, &evidence) {
                for order in orders {
                    let run = evidence.len();
                    let slowed = if run == disturbed { 0.5 } else { 0.0 };
                    let value = 1.0 + slowed + (run * 37 % 101) as f64 / 101.0 * 0.01;
                    evidence.push(Trial::new(order, 1.0, Outcome::Value(value)));
                }
            }
            let report = Report::new(&space, &settings, &evidence, Stop::MaxRuns, "t".into());
            assert!(report.best.is_none(), "{:?}", report.best);
            for effect in &report.effects {
                let [low, high] = effect.confidence;
                assert!(
                    low <= 1.001 && high >= 0.999,
                    "run {disturbed} of {max_runs}, seed {seed}: {effect:?}"
                );
            }
        }
    }
}

/// A program that one allocator makes a tenth faster, and whose first run with it is disturbed.
#[test]
fn a_disturbed_first_run_does_not_turn_an_effect_around() {
    let space = five_allocators();
    for seed in 1..5 {
        let settings = Settings { seed, warm_up: 1, ..Settings::simple(Goal::Minimize, 108) };
        let mut evidence: Vec<Trial> = Vec::new();
        let mut is_first = true;
        while let Decision::Run(orders) = decide::decide(&space.shape(), &settings, &evidence) {
            for order in orders {
                let is_fast = space.plan(order.candidate).to_string().starts_with("numapilot");
                let slowed = if is_fast && std::mem::take(&mut is_first) { 1.5 } else { 1.0 };
                let noise = (evidence.len() * 37 % 101) as f64 / 101.0 * 0.01;
                let value = if is_fast { 0.9 } else { 1.0 } * slowed * (1.0 + noise);
                evidence.push(Trial::new(order, 1.0, Outcome::Value(value)));
            }
        }
        let report = Report::new(&space, &settings, &evidence, Stop::Decided, "t".into());
        let best = report.best.map(|best| best.plan).unwrap_or_default();
        assert!(best.starts_with("numapilot"), "seed {seed}: {best:?}");
        for effect in &report.effects {
            let truth = if effect.level == "numapilot" { 0.9 } else { 1.0 };
            let [low, high] = effect.confidence;
            // The tolerance covers the part of the noise, of 1 %, that the disturbance hides on
            // either side.
            assert!(low <= truth + 0.003 && high >= truth - 0.003, "seed {seed}: {effect:?}");
        }
    }
}
