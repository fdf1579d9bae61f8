//! Failed runs: they decide which plans are out, and whether the program itself fails.
//!
//! A program that fails now and then does so under every plan, including the default. A plan is out
//! when its rate of failures is shown to be worse than the default's, by Fisher's exact test, and
//! worse than the tolerated rate, by the exact binomial test. Until then a failed run is repeated.
//! A wrong answer, or a plan that cannot be applied, puts a plan out at once.
//!
//! Source: R. A. Fisher, "The Logic of Inductive Inference", Journal of the Royal Statistical
//! Society 98 (1935).

use std::collections::{BTreeMap, BTreeSet};

use statrs::distribution::{Binomial, DiscreteCDF, Hypergeometric};

use super::Settings;
use crate::evidence::{Failure, Phase, Trial};
use crate::shape::{Candidate, DEFAULT};

/// Error of the comparison with the default.
const WORSE_THAN_DEFAULT: f64 = 0.05;
/// Error of the comparison with the tolerated rate, at each failure.
const NOT_TOLERATED: f64 = 0.01;
/// Runs without a success after which the default counts as always failing.
const ALWAYS: usize = 3;
/// Error of showing that the default fails in most runs.
const MOSTLY: f64 = 0.05;

/// Runs of a plan, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub runs: usize,
    /// Of these, runs that failed.
    pub failed: usize,
    /// Whether one failure is conclusive: a wrong answer, or a plan that cannot be applied.
    is_final: bool,
    /// Whether the last failure was a missing figure.
    has_no_figure: bool,
}

impl Tally {
    /// The tally of one plan.
    #[must_use]
    pub fn of(evidence: &[Trial], plan: Candidate) -> Self {
        let mut tally = Self::default();
        evidence.iter().filter(|t| t.order.candidate == plan).for_each(|t| tally.count(t));
        tally
    }

    fn count(&mut self, trial: &Trial) {
        self.runs += 1;
        if let Some(failure) = trial.failure() {
            self.failed += 1;
            self.is_final |= failure.is_final();
            self.has_no_figure = matches!(failure, Failure::NoFigure(_));
        }
    }

    /// Whether it never worked.
    fn only_failed(self) -> bool {
        self.failed == self.runs
    }
}

fn tallies(evidence: &[Trial]) -> BTreeMap<Candidate, Tally> {
    let mut tallies: BTreeMap<Candidate, Tally> = BTreeMap::new();
    for trial in evidence {
        tallies.entry(trial.order.candidate).or_default().count(trial);
    }
    tallies
}

/// Plans that must not run again.
#[must_use]
pub fn failed_plans(settings: &Settings, evidence: &[Trial]) -> BTreeSet<Candidate> {
    if evidence.iter().all(|t| t.failure().is_none()) {
        return BTreeSet::new();
    }
    let tallies = tallies(evidence);
    let default = tallies.get(&DEFAULT).copied().unwrap_or_default();
    let is_out = |tally: Tally| {
        let is_shown = || {
            is_above(tally, settings.failure_tolerance, NOT_TOLERATED)
                && is_worse(tally, default, WORSE_THAN_DEFAULT)
        };
        tally.failed > 0 && (tally.is_final || settings.failure_tolerance <= 0.0 || is_shown())
    };
    tallies.into_iter().filter(|(plan, t)| *plan != DEFAULT && is_out(*t)).map(|(p, _)| p).collect()
}

/// Plans that have only failed so far, and may run again to show whether that was chance.
pub fn unconfirmed(settings: &Settings, evidence: &[Trial]) -> Vec<Candidate> {
    let out = failed_plans(settings, evidence);
    tallies(evidence)
        .into_iter()
        .filter(|(plan, tally)| tally.only_failed() && *plan != DEFAULT && !out.contains(plan))
        .map(|(plan, _)| plan)
        .collect()
}

/// Plans that worked at least once and are not out: their failures were chance.
pub fn working(settings: &Settings, evidence: &[Trial]) -> BTreeSet<Candidate> {
    let out = failed_plans(settings, evidence);
    let worked = evidence.iter().filter(|t| t.failure().is_none()).map(|t| t.order.candidate);
    worked.filter(|plan| !out.contains(plan)).collect()
}

/// The default's tally if the program fails without any plan, always or in most runs, so that
/// nothing can be compared with it.
#[must_use]
pub fn failing_default(settings: &Settings, evidence: &[Trial]) -> Option<Tally> {
    let default = Tally::of(evidence, DEFAULT);
    let always = default.only_failed() && (default.failed >= ALWAYS || default.has_no_figure);
    let is_hopeless = default.failed > 0
        && (default.is_final
            || settings.failure_tolerance <= 0.0
            || always
            || is_above(default, 0.5, MOSTLY));
    is_hopeless.then_some(default)
}

/// Whether the failures show a rate above `rate`.
fn is_above(tally: Tally, rate: f64, error: f64) -> bool {
    let Some(fewer) = tally.failed.checked_sub(1) else { return false };
    Binomial::new(rate.clamp(0.0, 1.0), tally.runs as u64)
        .is_ok_and(|chance| chance.sf(fewer as u64) <= error)
}

/// Whether a plan is shown to fail more often than another.
fn is_worse(tally: Tally, other: Tally, error: f64) -> bool {
    let Some(fewer) = tally.failed.checked_sub(1) else { return false };
    let (runs, failed) = (tally.runs + other.runs, tally.failed + other.failed);
    Hypergeometric::new(runs as u64, failed as u64, tally.runs as u64)
        .is_ok_and(|chance| chance.sf(fewer as u64) <= error)
}

/// Runs of a phase that succeeded.
pub fn succeeded(evidence: &[Trial], phase: Phase) -> usize {
    evidence.iter().filter(|t| t.order.phase == phase && t.failure().is_none()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Goal, Order, Outcome};

    fn settings(failure_tolerance: f64) -> Settings {
        Settings { failure_tolerance, ..Settings::simple(Goal::Minimize, 100) }
    }

    /// `of` runs of a plan, the first `failed` of which fail.
    fn runs(plan: u32, failed: usize, of: usize) -> Vec<Trial> {
        let order = Order { phase: Phase::Race, block: 0, candidate: Candidate(plan) };
        let outcome = |run| match run < failed {
            true => Outcome::Failed(Failure::Exit(3)),
            false => Outcome::Value(1.0),
        };
        (0..of).map(|run| Trial::new(order, 1.0, outcome(run))).collect()
    }

    fn is_out(tolerance: f64, plan: (usize, usize), default: (usize, usize)) -> bool {
        let trials = [runs(0, default.0, default.1), runs(1, plan.0, plan.1)].concat();
        failed_plans(&settings(tolerance), &trials).contains(&Candidate(1))
    }

    #[test]
    fn one_failure_is_chance_and_failing_always_is_not() {
        assert!(!is_out(0.05, (1, 1), (0, 6)));
        assert!(is_out(0.05, (2, 2), (0, 6)));
        assert!(!is_out(0.05, (1, 6), (0, 12)) && !is_out(0.05, (2, 12), (1, 12)));
        assert!(is_out(0.05, (5, 12), (0, 12)));
        // The default fails as often.
        assert!(!is_out(0.05, (5, 12), (4, 12)));
        // A rate that is tolerated.
        assert!(!is_out(0.5, (5, 12), (0, 12)));
    }

    #[test]
    fn without_tolerance_the_first_failure_decides() {
        assert!(is_out(0.0, (1, 30), (0, 30)));
        assert!(failing_default(&settings(0.0), &runs(0, 1, 18)).is_some());
    }

    #[test]
    fn a_wrong_answer_is_no_chance() {
        let wrong = Failure::WrongAnswer { expected: "1".into(), got: "2".into() };
        let mut trials = runs(1, 1, 8);
        trials[0].outcome = Outcome::Failed(wrong);
        assert_eq!(failed_plans(&settings(0.05), &trials).len(), 1);
    }

    #[test]
    fn a_default_that_fails_now_and_then_is_no_reason_to_stop() {
        let hopeless =
            |failed, of| failing_default(&settings(0.05), &runs(0, failed, of)).is_some();
        assert!(!hopeless(1, 18) && !hopeless(1, 1) && !hopeless(2, 2) && !hopeless(3, 6));
        assert!(hopeless(3, 3) && hopeless(9, 11));
    }

    #[test]
    fn a_plan_that_only_failed_is_tried_again_until_it_is_known() {
        let evidence = [runs(0, 0, 6), runs(1, 1, 1), runs(2, 1, 2)].concat();
        let settings = settings(0.05);
        assert_eq!(unconfirmed(&settings, &evidence), [Candidate(1)]);
        assert_eq!(working(&settings, &evidence), [DEFAULT, Candidate(2)].into());
        let evidence = [evidence, runs(1, 1, 1)].concat();
        assert!(unconfirmed(&settings, &evidence).is_empty());
    }
}
