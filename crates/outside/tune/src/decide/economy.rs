//! Searches with few runs (`--max-runs 20`), for programs that run for minutes.
//!
//! ```text
//!  default -> design -> one run at a time, -----------> final of the leader
//!    x 1       x 6      the most telling one, to 20      and the default, x 3
//! ```
//!
//! There is no noise phase and no race. Every run is chosen by the model of all runs before it (the
//! knowledge gradient, as in `contenders`), until naming the leader is expected to lose next to
//! nothing, or until the runs left are those of the final. The final alone supports the claim that
//! a plan is better than the default. With fewer runs than the choice and the final together need,
//! all serve the choice, and nothing is claimed; more runs then continue with the final.

use super::budget::{FEW_DESIGN, Shares};
use super::race::FIXED_ROUNDS;
use super::{Decision, Settings, Stop, design, failures, propose, rounds};
use crate::evidence::{Order, Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};

/// Expected loss by naming the leader at which the final begins, relative to the resolution.
const LEAST_LOSS: f64 = 0.1;
/// Runs of the final.
const FINAL: usize = 2 * FIXED_ROUNDS;
/// Runs from which on some are kept for the final: the first 20 all serve the choice.
const WITH_FINAL: usize = 20 + FINAL;

/// The next run, round of the final, or end.
pub fn next_decision(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
) -> Decision {
    let of = |phase: Phase| evidence.iter().filter(move |t| t.order.phase == phase);
    if of(Phase::Final).next().is_some() {
        return rounds::next_of_final(shape, settings, evidence, shares);
    }
    let left = shares.left(evidence);
    let has_final = shares.total >= WITH_FINAL;
    let choice = if has_final { shares.total - FINAL } else { shares.total };
    if evidence.len() < choice {
        // What is known from other searches takes the place of the design.
        let is_begun = of(Phase::Refine).next().is_some() || !settings.prior.is_empty();
        let made: Vec<Candidate> = of(Phase::Screen).map(|t| t.order.candidate).collect();
        let out = failures::failed_plans(settings, evidence);
        let cells = design::screening(shape, settings.seed, 1, FEW_DESIGN).concat();
        let is_next = |cell: &Candidate| {
            !made.contains(cell) && !out.contains(cell) && !shape.is_excluded(*cell)
        };
        if let Some(candidate) = cells.into_iter().filter(|_| !is_begun).find(is_next) {
            return Decision::Run(vec![Order { phase: Phase::Screen, block: 0, candidate }]);
        }
        if let Some((candidate, loss)) = propose::most_telling(shape, settings, evidence)
            && (loss >= LEAST_LOSS * settings.resolution || left < FINAL)
        {
            let block = of(Phase::Refine).map(|t| t.order.block + 1).max().unwrap_or(0);
            return Decision::Run(vec![Order { phase: Phase::Refine, block, candidate }]);
        }
    }
    match propose::finalist(shape, settings, evidence) {
        Some(leader) => {
            let pair = vec![DEFAULT, leader];
            rounds::round(settings, Phase::Final, 0, pair, left, shares.exhausted)
        }
        None => Decision::Stop(Stop::Equivalent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::{Findings, decide, is_economical};
    use crate::evidence::{Goal, Outcome};

    /// A search in which the first factor's level 2 halves the time.
    fn search(max_runs: usize, evidence: &mut Vec<Trial>) -> (Findings, Stop) {
        search_with(max_runs, evidence, |_, value| Outcome::Value(value))
    }

    fn search_with(
        max_runs: usize,
        evidence: &mut Vec<Trial>,
        outcome: impl Fn(Candidate, f64) -> Outcome,
    ) -> (Findings, Stop) {
        let shape = Shape { levels: vec![6, 3], ..Shape::default() };
        let settings = Settings { noise_runs: 1, ..Settings::simple(Goal::Minimize, max_runs) };
        loop {
            match decide(&shape, &settings, evidence) {
                Decision::Stop(stop) => {
                    return (Findings::new(&shape, &settings, evidence), stop);
                }
                Decision::Run(orders) => {
                    for order in orders {
                        let wobble = 0.01 * ((evidence.len() * 7) % 5) as f64;
                        let value = if order.candidate.0 / 3 == 2 { 0.5 } else { 1.0 } + wobble;
                        let outcome = outcome(order.candidate, value);
                        evidence.push(Trial::new(order, value, outcome));
                    }
                }
            }
        }
    }

    #[test]
    fn few_runs_find_a_large_gain_and_more_of_them_prove_it() {
        let mut evidence = Vec::new();
        let (findings, _) = search(20, &mut evidence);
        assert!(evidence.len() <= 20);
        // The second factor makes no difference.
        let is_fast = |plan: Candidate| plan.0 / 3 == 2;
        assert!(is_fast(findings.named()), "{findings:?}");
        let (findings, _) = search(26, &mut evidence);
        assert!(findings.best().is_some_and(|best| is_fast(best.plan)), "{findings:?}");
        // With many more runs it is an ordinary search, which continues the final.
        let (findings, stop) = search(100, &mut evidence);
        assert!(is_fast(findings.named()) && stop == Stop::Decided, "{stop:?}");
    }

    #[test]
    fn a_plan_that_was_cut_short_twice_does_not_run_again() {
        // Half of the plans are much slower than the default.
        let is_slow = |plan: Candidate| plan.0 / 3 > 2;
        for max_runs in [14, 20, 30] {
            let mut evidence = Vec::new();
            search_with(max_runs, &mut evidence, |plan, value| match is_slow(plan) {
                true => Outcome::CutShort(0.3 + value),
                false => Outcome::Value(value),
            });
            let runs = |plan| evidence.iter().filter(|t| t.order.candidate == plan).count();
            assert!((0..18).map(Candidate).filter(|plan| is_slow(*plan)).all(|p| runs(p) <= 2));
            assert!(evidence.iter().filter(|t| is_slow(t.order.candidate)).count() <= max_runs / 2);
        }
    }

    #[test]
    fn with_a_limit_of_time_the_search_is_an_ordinary_one() {
        let shape = Shape { levels: vec![6, 3], ..Shape::default() };
        let few = Settings::simple(Goal::Minimize, 20);
        assert!(is_economical(&shape, &few));
        let timed = Settings { max_seconds: Some(60.0), ..few.clone() };
        assert!(!is_economical(&shape, &timed));
        assert!(!is_economical(&shape, &Settings { max_runs: 40, ..few.clone() }));
    }

    #[test]
    fn two_plans_race_and_so_do_plans_outside_the_grid_if_the_runs_suffice() {
        let outside = Shape { extras: 4, ..grid(vec![]) };
        assert!(
            is_economical(&grid(vec![3]), &few(39)) && !is_economical(&grid(vec![2]), &few(13))
        );
        // Five plans and two of the final run three times, the default five times more.
        assert!(is_economical(&outside, &few(25)) && !is_economical(&outside, &few(26)));
    }

    #[test]
    fn few_runs_find_one_of_few_plans_and_more_of_them_prove_it() {
        for shape in [grid(vec![6]), grid(vec![2, 3]), Shape { extras: 5, ..grid(vec![]) }] {
            let mut evidence = Vec::new();
            let search = |max_runs: usize, evidence: &mut Vec<Trial>| {
                let settings = Settings { noise_runs: 1, ..few(max_runs) };
                while let Decision::Run(orders) = decide(&shape, &settings, evidence) {
                    for order in orders {
                        let value = if order.candidate == Candidate(4) { 0.7 } else { 1.0 }
                            + 0.01 * ((evidence.len() * 7) % 5) as f64;
                        evidence.push(Trial::new(order, value, Outcome::Value(value)));
                    }
                }
                Findings::new(&shape, &settings, evidence)
            };
            let findings = search(13, &mut evidence);
            assert!(evidence.len() <= 13 && evidence.iter().all(|t| t.order.phase != Phase::Race));
            assert_eq!(findings.named(), Candidate(4), "{findings:?}");
            // More runs continue with a race of the plans that may be best.
            let findings = search(60, &mut evidence);
            assert_eq!(findings.best().map(|best| best.plan), Some(Candidate(4)), "{findings:?}");
        }
    }

    fn grid(levels: Vec<usize>) -> Shape {
        Shape { levels, ..Shape::default() }
    }

    fn few(max_runs: usize) -> Settings {
        Settings::simple(Goal::Minimize, max_runs)
    }
}
