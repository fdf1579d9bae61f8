//! Tests of the model on made-up runs.

use super::*;
use crate::statistics::{median, robust_sigma};

const EFFORT: Effort = Effort { chains: 2, draws: 200, steps: 2 };

fn seen(plan: u32, cost: f64) -> Seen {
    Seen { plan: Candidate(plan), cost: Some(cost), is_bound: false }
}

fn given(prior: &Prior, noise: f64) -> Given<'_> {
    Given { noise, prior, is_few: false }
}

fn expected(draws: &[Surface], what: impl Fn(&Surface) -> f64) -> f64 {
    median(&draws.iter().map(what).collect::<Vec<f64>>())
}

/// With costs without interactions, unmeasured cells are predicted and effects recovered.
#[test]
fn additive_costs_are_predicted_where_nothing_was_measured() {
    let shape = Shape { levels: vec![4, 3, 3], extras: 0, ..Shape::default() };
    let truth = |c: Candidate| {
        let p = shape.coordinates(c).unwrap();
        [0.0, 0.3, -0.2, 0.1][p[0]] + [0.0, -0.4, 0.2][p[1]] + [0.0, 0.05, 0.0][p[2]]
    };
    let design = super::super::design::screening(&shape, 3, 3, 6);
    let seen: Vec<Seen> = design.iter().flatten().map(|&c| seen(c.0, truth(c))).collect();
    let draws = draws(&shape, &seen, given(&Prior::default(), 0.01), EFFORT, 1);
    for cell in shape.candidates() {
        let error = expected(&draws, |s| s.cost(cell) - s.cost(Candidate(0))) - truth(cell);
        assert!(error.abs() < 0.06, "{cell:?}: {error}");
    }
    let effects: Vec<f64> = draws.iter().map(|s| s.main_effect(&shape, 1, 1)).collect();
    assert!((median(&effects) + 0.4).abs() < 0.03);
    assert!(robust_sigma(&effects) < 0.05);
    // Two plans are equally good.
    assert!(draws[0].best(|_| true).is_some_and(|plan| truth(plan) < -0.55));
}

#[test]
fn an_outlier_does_not_spoil_the_estimate() {
    let shape = Shape { levels: vec![2, 2], extras: 0, ..Shape::default() };
    let mut runs: Vec<Seen> = (0..24).map(|i| seen(i % 4, f64::from(i % 4) * 0.1)).collect();
    runs[5].cost = Some(2.1);
    let draws = draws(&shape, &runs, given(&Prior::default(), 0.02), EFFORT, 1);
    let cost = expected(&draws, |s| s.cost(Candidate(1)) - s.cost(Candidate(0)));
    assert!((cost - 0.1).abs() < 0.03, "{cost}");
}

/// An effect of a single combination is accepted after some repetitions.
#[test]
fn a_plan_may_differ_from_what_its_levels_say() {
    let shape = Shape { levels: vec![2, 2, 2], extras: 1, ..Shape::default() };
    let cost = |plan| if plan == 7 { -0.5 } else { f64::from(plan == 8) * 0.2 };
    let runs: Vec<Seen> = (0..54).map(|i| seen(i % 9, cost(i % 9))).collect();
    let draws = draws(&shape, &runs, given(&Prior::default(), 0.02), EFFORT, 1);
    for plan in [6, 7, 8] {
        let found = expected(&draws, |s| s.cost(Candidate(plan)) - s.cost(Candidate(0)));
        assert!((found - cost(plan)).abs() < 0.05, "{plan}: {found}");
    }
}

#[test]
fn drift_is_no_effect() {
    let shape = Shape { levels: vec![2], extras: 0, ..Shape::default() };
    // The second plan runs later, when everything is slower.
    let cost = |i: u32| f64::from(i) * 0.02;
    let runs: Vec<Seen> = (0..40).map(|i| seen(u32::from(i % 4 > 1), cost(i))).collect();
    let draws = draws(&shape, &runs, given(&Prior::default(), 0.01), EFFORT, 1);
    let effect = expected(&draws, |s| s.main_effect(&shape, 0, 1));
    assert!(effect.abs() < 0.02, "{effect}");
}

#[test]
fn a_run_that_was_cut_short_is_worse_than_its_bound() {
    let shape = Shape { levels: vec![3], extras: 0, ..Shape::default() };
    let cut = Seen { plan: Candidate(2), cost: Some(0.2), is_bound: true };
    let runs: Vec<Seen> = (0..5).flat_map(|_| [seen(0, 0.0), seen(1, 0.1)]).collect();
    let runs: Vec<Seen> = runs.into_iter().chain([cut]).collect();
    let draws = draws(&shape, &runs, given(&Prior::default(), 0.01), EFFORT, 1);
    let difference = |s: &Surface| s.cost(Candidate(2)) - s.cost(Candidate(0));
    assert!(expected(&draws, difference) > 0.2, "{}", expected(&draws, difference));
    let mut rng = SmallRng::seed_from_u64(1);
    for least in [-3.0, 0.0, 0.6, 8.0] {
        assert!((0..100).all(|_| normal_above(least, &mut rng) >= least));
    }
}

#[test]
fn nothing_measured_gives_no_surface() {
    let shape = Shape { levels: vec![2], extras: 1, ..Shape::default() };
    assert!(draws(&shape, &[], given(&Prior::default(), 0.05), EFFORT, 1).is_empty());
    let failed = Seen { plan: Candidate(2), cost: None, is_bound: false };
    assert!(draws(&shape, &[failed], given(&Prior::default(), 0.05), EFFORT, 1).is_empty());
}
