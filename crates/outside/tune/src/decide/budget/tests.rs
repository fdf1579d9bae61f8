//! Tests of the budget.

use super::*;
use crate::decide::{Decision, Earlier, Prior, decide};
use crate::evidence::{Goal, Order, Outcome};

/// Runs a whole search in which every run takes this long and the default is the slowest plan.
fn search(seconds: f64, limit: f64) -> (Vec<Trial>, Stop) {
    let shape = Shape { levels: vec![6, 3], ..Shape::default() };
    let settings =
        Settings { warm_up: 1, max_seconds: Some(limit), ..Settings::simple(Goal::Minimize, 108) };
    let mut evidence: Vec<Trial> = Vec::new();
    loop {
        match decide(&shape, &settings, &evidence) {
            Decision::Stop(stop) => return (evidence, stop),
            Decision::Run(orders) => evidence.extend(orders.into_iter().map(|order| {
                let value = if order.candidate == DEFAULT { 1.0 } else { 0.5 };
                Trial::new(order, seconds, Outcome::Value(value))
            })),
        }
    }
}

fn plans(evidence: &[Trial]) -> usize {
    evidence.iter().map(|t| t.order.candidate).collect::<BTreeSet<Candidate>>().len()
}

#[test]
fn too_little_time_for_one_plan_is_known_at_the_first_run_that_counts() {
    let (evidence, stop) = search(7.0, 60.0);
    assert_eq!((evidence.len(), stop), (2, Stop::TooLittleTime));
}

#[test]
fn a_first_run_that_exceeds_the_time_is_too_little_time() {
    for warm_up in [0, 1] {
        let settings =
            Settings { warm_up, max_seconds: Some(2.0), ..Settings::simple(Goal::Minimize, 100) };
        let phase = if warm_up > 0 { Phase::WarmUp } else { Phase::Noise };
        let order = Order { phase, block: 0, candidate: DEFAULT };
        let failed = Outcome::Failed(crate::evidence::Failure::Exit(3));
        for outcome in [Outcome::Value(4.0), failed] {
            let evidence = [Trial::new(order, 4.0, outcome)];
            let decision =
                decide(&Shape { levels: vec![2], ..Shape::default() }, &settings, &evidence);
            assert_eq!(decision, Decision::Stop(Stop::TooLittleTime));
            assert_eq!(too_few_runs(&settings, &evidence), Some(warm_up + 5 + 2 * LEAST_ROUNDS));
        }
        assert_eq!(too_few_runs(&settings, &[]), None);
    }
}

#[test]
fn the_plans_of_a_short_list_are_drawn_from_the_seed() {
    let shape = Shape { levels: vec![6, 3], ..Shape::default() };
    let order = Order { phase: Phase::Noise, block: 0, candidate: DEFAULT };
    let evidence = vec![Trial::new(order, 7.0, Outcome::Value(1.0)); 5];
    let of = |seed| {
        let settings =
            Settings { seed, max_seconds: Some(105.0), ..Settings::simple(Goal::Minimize, 108) };
        let list = short_list(&shape, &settings, &evidence).unwrap();
        assert_eq!(list, short_list(&shape, &settings, &evidence).unwrap());
        assert!(list.iter().all(|plan| plan.0 % 3 == 0), "{list:?}");
        list[0]
    };
    let first: BTreeSet<Candidate> = (1..40).map(of).collect();
    assert_eq!(first.len(), 5, "every allocator has its chance: {first:?}");
}

#[test]
fn of_little_time_the_plans_that_are_expected_to_be_best_get_it() {
    let shape = Shape { levels: vec![6, 3], ..Shape::default() };
    let order = Order { phase: Phase::Noise, block: 0, candidate: DEFAULT };
    let evidence = vec![Trial::new(order, 7.0, Outcome::Value(1.0)); 5];
    let mut costs = vec![0.1; 18];
    costs[17] = -0.5;
    let prior =
        Prior { searches: vec![Earlier { costs, ..Earlier::default() }], ..Prior::default() };
    let settings =
        Settings { max_seconds: Some(105.0), prior, ..Settings::simple(Goal::Minimize, 108) };
    assert_eq!(short_list(&shape, &settings, &evidence).unwrap()[0], Candidate(17));
}

#[test]
fn in_little_time_few_plans_are_compared_and_settled() {
    // 31 runs: 6 of the default, 25 for a race of at least 5 plans.
    let (evidence, _) = search(7.0, 220.0);
    assert!((3..=6).contains(&plans(&evidence)), "{}", plans(&evidence));
    assert!(evidence.iter().all(|t| t.order.phase != Phase::Screen));
    // Allocators are the cells that change only the first factor.
    let raced = evidence.iter().map(|t| t.order.candidate.0).filter(|plan| *plan != 0);
    assert!(raced.into_iter().all(|plan| plan % 3 == 0));
    // The outlook predicts the same.
    let shape = Shape { levels: vec![6, 3], ..Shape::default() };
    let settings =
        Settings { warm_up: 1, max_seconds: Some(220.0), ..Settings::simple(Goal::Minimize, 108) };
    let outlook = outlook(&shape, &settings, &evidence[..6]);
    assert_eq!((outlook.plans, outlook.of), (plans(&evidence), 18));
    assert_eq!(outlook.runs, 25);
}

#[test]
fn a_short_race_goes_on_with_its_plans_when_there_is_more_time() {
    let (evidence, _) = search(7.0, 220.0);
    let shape = Shape { levels: vec![6, 3], ..Shape::default() };
    let settings = Settings { warm_up: 1, ..Settings::simple(Goal::Minimize, 108) };
    let first_of_race =
        evidence.iter().position(|t| t.order.phase == Phase::Race).unwrap_or(evidence.len());
    let begun = &evidence[..=first_of_race + 2];
    assert!(!is_screened(&shape, &settings, begun));
    let order = Order { phase: Phase::Screen, block: 0, candidate: DEFAULT };
    let screened = [Trial::new(order, 1.0, Outcome::Value(1.0))];
    assert!(is_screened(&shape, &settings, &screened));
}

#[test]
fn with_time_enough_the_whole_space_is_screened() {
    let (evidence, _) = search(0.1, 220.0);
    assert!(evidence.iter().any(|t| t.order.phase == Phase::Screen));
}
