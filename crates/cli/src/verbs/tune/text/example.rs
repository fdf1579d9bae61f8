//! A report for tests.

use std::collections::BTreeSet;

use numapilot_tune::decide::Stop;
use numapilot_tune::evidence::Goal;
use numapilot_tune::report::{Basis, DefaultFigures, PlanFigures, Report, Status};

use super::super::setup::WALL_TIME;

/// A screened space in which nothing is shown, so all figures come from the model.
pub fn screened() -> Report {
    let expected = PlanFigures {
        plan: "mimalloc".to_owned(),
        ratio: Some(0.486),
        confidence: Some([0.217, 0.727]),
        basis: Some(Basis::Model),
        status: Status::Expected,
        reason: None,
        runs: 3,
        failed: 0,
        cut_short: 0,
        at_least: None,
        failures: Vec::new(),
        profile: numapilot_place::Plan::default(),
    };
    Report {
        metric: WALL_TIME.to_owned(),
        goal: Goal::Minimize,
        noise: Some(0.1),
        noise_runs: 5,
        runs: 40,
        cut_short: 0,
        seconds: 4.0,
        candidates: 12,
        confidence: 0.95,
        resolution: 0.02,
        stop: Stop::MaxRuns,
        default: DefaultFigures { median: Some(0.1), median_seconds: Some(0.1), runs: 5 },
        plans: vec![expected.clone()],
        effects: Vec::new(),
        best: None,
        expected: Some(expected),
        skipped: Vec::new(),
        never_ran: Vec::new(),
        is_short: false,
        left_running: BTreeSet::new(),
        values: None,
        prior: None,
    }
}
