//! The race: rounds of all surviving plans in random order, compared round by round.
//!
//! Two plans are compared by the differences of their log-metrics within rounds, so that
//! what slows a whole round (another tenant, a hot processor) cancels out. A plan is
//! dropped when the confidence interval of its difference to the leader lies above 0.
//!
//! The race may be evaluated at any time: the intervals of all rounds hold jointly with the
//! confidence asked for ([`crate::statistics::error_at`]). Each interval has its share of the
//! error, which all plans except one divide among them (Bonferroni). The same interval against the
//! default decides whether a plan is called better.
//!
//! A part of the error of a comparison with the default is for one look at the first round after
//! which a classical interval is as narrow as `--precision` asks. That round follows from the spread
//! of the differences alone and not from their mean, so that one interval needs no allowance for
//! the other looks. It is narrower than the one for all rounds by a quarter, and what counts is the
//! intersection of both.
//!
//! A final without a race before it (`economy`) has few rounds. Half of its error is for one look
//! after a number of rounds that is fixed in advance, which needs no allowance for the other looks;
//! the other half is for all later ones, after `--resume`. Its spread also comes from all plans that
//! ran more than once.
//!
//! Sources: O. Maron, A. W. Moore, "The Racing Algorithm", Artificial Intelligence Review
//! 11 (1997); M. Birattari et al., "A Racing Algorithm for Configuring Metaheuristics",
//! GECCO 2002: blocking by round. Y. S. Chow, H. Robbins, "On the Asymptotic Theory of Fixed-Width
//! Sequential Confidence Intervals for the Mean", Annals of Mathematical Statistics 36 (1965): the
//! interval at the round that is chosen by its width. The other intervals: [`crate::statistics`].

use std::collections::{BTreeMap, BTreeSet};

use super::{Settings, failures};
use crate::evidence::{Goal, Phase, Trial};
use crate::shape::{Candidate, DEFAULT};
use crate::statistics::{common_variance, error_at, half_width, location};

/// Least rounds before a plan is dropped or anything is called decided.
pub const LEAST_ROUNDS: usize = 3;

/// Rounds after which a final without a race is looked at with half of its error.
pub const FIXED_ROUNDS: usize = 3;

/// Share of the error of a comparison with the default that is for the interval at the first round
/// after which it is narrow enough.
const NARROW: f64 = 0.25;

/// Least rounds of that interval: with fewer, the round is too often one whose spread happens to
/// be small.
const LEAST_NARROW: usize = 5;

/// Most degrees of freedom of the spread of all plans, when pooled with a plan's own.
const PRIOR_DF: f64 = 12.0;

/// Difference of costs with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The estimate.
    pub centre: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Rounds on which it rests.
    pub rounds: usize,
}

impl Difference {
    /// The difference of a plan to itself.
    fn none(rounds: usize) -> Self {
        Self { centre: 0.0, low: 0.0, high: 0.0, rounds }
    }

    /// Whether the interval extends at most this share of the ratio to either side.
    #[must_use]
    pub fn is_within(&self, precision: f64) -> bool {
        self.high - self.low <= 2.0 * precision.ln_1p()
    }

    /// The part of the interval that is in the other one as well; all of it if there is none.
    fn within(self, other: &Self) -> Self {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        if low > high {
            return self;
        }
        Self { centre: self.centre.clamp(low, high), low, high, ..self }
    }
}

/// All costs of a race, by plan and round.
#[derive(Clone, Debug)]
pub struct Race {
    /// Plans that ran, in ascending order.
    pub racers: Vec<Candidate>,
    /// Costs by round.
    costs: BTreeMap<Candidate, BTreeMap<u32, f64>>,
    /// Plans that are out because they fail.
    out: BTreeSet<Candidate>,
    /// Plans that gave a figure, by round.
    ran: BTreeMap<u32, BTreeSet<Candidate>>,
    /// Error allowed to all intervals of one comparison.
    alpha: f64,
    /// Whether half of it is for the look after [`FIXED_ROUNDS`].
    has_fixed_look: bool,
    /// How far an interval that is narrow enough extends to either side, as a share of the ratio.
    precision: f64,
    /// Variance of a difference, and how sure it is.
    prior: (f64, f64),
}

impl Race {
    /// Extracts the race, or the final, from the evidence.
    #[must_use]
    pub fn new(evidence: &[Trial], phase: Phase, settings: &Settings) -> Self {
        let goal = settings.goal;
        let mut costs: BTreeMap<Candidate, BTreeMap<u32, f64>> = BTreeMap::new();
        let mut ran: BTreeMap<u32, BTreeSet<Candidate>> = BTreeMap::new();
        let mut racers: BTreeSet<Candidate> = BTreeSet::new();
        for trial in evidence.iter().filter(|t| t.order.phase == phase) {
            let (plan, round) = (trial.order.candidate, trial.order.block);
            racers.insert(plan);
            // A failed run is repeated until the plan is out.
            if let Some(cost) = trial.cost(goal) {
                ran.entry(round).or_default().insert(plan);
                costs.entry(plan).or_default().insert(round, cost);
            }
        }
        let out = failures::failed_plans(settings, evidence);
        let comparisons = racers.len().saturating_sub(1).max(1);
        let alpha = (1.0 - settings.confidence) / comparisons as f64;
        let racers = racers.into_iter().collect();
        let is_of_race = |t: &Trial| t.order.phase == Phase::Race;
        let has_fixed_look = phase == Phase::Final && !evidence.iter().any(is_of_race);
        let prior = (0.0, 0.0);
        let precision = settings.precision;
        let mut race = Self { racers, costs, out, ran, alpha, has_fixed_look, precision, prior };
        race.prior = race.spread(evidence, goal);
        race
    }

    /// Rounds begun.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.ran.keys().last().map_or(0, |last| last + 1)
    }

    /// Plans that have run in this round.
    #[must_use]
    pub fn ran(&self, round: u32) -> BTreeSet<Candidate> {
        self.ran.get(&round).cloned().unwrap_or_default()
    }

    /// Plans that should run in this round and have not yet.
    #[must_use]
    pub fn missing(&self, round: u32) -> Vec<Candidate> {
        let ran = self.ran(round);
        // The plans of the first round follow from the evidence before the race.
        let expected = if round == 0 { Vec::new() } else { self.survivors(round) };
        expected.into_iter().filter(|plan| !ran.contains(plan)).collect()
    }

    /// Plans still in the race after `rounds` rounds: they have run in the last of them, have not
    /// failed, and are not excluded. The default stays to the end, because every ratio refers to
    /// it.
    #[must_use]
    pub fn survivors(&self, rounds: u32) -> Vec<Candidate> {
        let Some(last) = rounds.checked_sub(1).and_then(|round| self.ran.get(&round)) else {
            return self.racers.clone();
        };
        let present: Vec<Candidate> =
            last.iter().copied().filter(|c| !self.out.contains(c)).collect();
        if (rounds as usize) < LEAST_ROUNDS {
            return present;
        }
        let leader = self.leader(&present);
        present
            .into_iter()
            .filter(|&plan| plan == DEFAULT || self.difference(plan, leader).low <= 0.0)
            .collect()
    }

    /// Plans still in the race after the last complete round.
    #[must_use]
    pub fn standing(&self) -> Vec<Candidate> {
        let rounds = self.rounds();
        let is_cut = rounds > 0 && !self.missing(rounds - 1).is_empty();
        self.survivors(if is_cut { rounds - 1 } else { rounds })
    }

    /// The plan with the least estimated cost.
    #[must_use]
    pub fn leader(&self, plans: &[Candidate]) -> Candidate {
        plans
            .iter()
            .map(|&plan| (self.difference(plan, DEFAULT).centre, plan))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(DEFAULT, |(_, plan)| plan)
    }

    /// Cost of one plan minus that of another, over the rounds in which both ran.
    #[must_use]
    pub fn difference(&self, plan: Candidate, other: Candidate) -> Difference {
        let differences = self.differences(plan, other);
        if plan == other {
            return Difference::none(differences.len());
        }
        // The error of the intervals of all rounds, and of the one that is narrow enough.
        let all = if self.has_fixed_look { self.alpha / 2.0 } else { self.alpha };
        let narrow = if plan == DEFAULT || other == DEFAULT { NARROW * all } else { 0.0 };
        let rounds = differences.len();
        let error = match self.has_fixed_look && rounds == FIXED_ROUNDS {
            true => self.alpha / 2.0,
            false => error_at(rounds, all - narrow),
        };
        let at_any_time = self.interval(&differences, error);
        (LEAST_NARROW..=rounds)
            .filter(|_| narrow > 0.0)
            .map(|rounds| self.interval(&differences[..rounds], narrow))
            .find(|interval| interval.is_within(self.precision))
            .map_or(at_any_time, |interval| at_any_time.within(&interval))
    }

    /// The interval of the mean of these differences with this error.
    fn interval(&self, differences: &[f64], error: f64) -> Difference {
        let (variance, df) = self.prior;
        let estimate = location(differences, variance.sqrt());
        let half = half_width(&estimate, variance, df, error);
        Difference {
            centre: estimate.centre,
            low: estimate.centre - half,
            high: estimate.centre + half,
            rounds: differences.len(),
        }
    }

    fn differences(&self, plan: Candidate, other: Candidate) -> Vec<f64> {
        let (Some(a), Some(b)) = (self.costs.get(&plan), self.costs.get(&other)) else {
            return Vec::new();
        };
        a.iter().filter_map(|(round, cost)| Some(cost - b.get(round)?)).collect()
    }

    /// Variance of a difference pooled over the runs of plans by themselves and all racers, and
    /// its degrees of freedom beyond those of any one pair.
    fn spread(&self, evidence: &[Trial], goal: Goal) -> (f64, f64) {
        let counts = |phase: Phase| match phase {
            Phase::Noise => true,
            Phase::Screen | Phase::Refine => self.has_fixed_look,
            Phase::WarmUp | Phase::Race | Phase::Final => false,
        };
        let mut alone: BTreeMap<Candidate, Vec<f64>> = BTreeMap::new();
        for trial in evidence.iter().filter(|t| counts(t.order.phase)) {
            let costs = alone.entry(trial.order.candidate).or_default();
            // A difference has the noise of two runs.
            costs.extend(trial.cost(goal).map(|cost| cost * 2.0_f64.sqrt()));
        }
        let of_racers = self.racers.iter().filter(|&&plan| plan != DEFAULT);
        let differences = of_racers.map(|&plan| self.differences(plan, DEFAULT));
        let samples: Vec<Vec<f64>> = differences.chain(alone.into_values()).collect();
        let own = samples.iter().map(|sample| sample.len().saturating_sub(1)).max().unwrap_or(0);
        let (variance, df) = common_variance(&samples);
        (variance, (df - own as f64).min(PRIOR_DF))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Failure, Order, Outcome};

    fn settings(goal: Goal, max_runs: usize) -> Settings {
        Settings { noise_runs: 4, seed: 0, ..Settings::simple(goal, max_runs) }
    }

    fn trial(phase: Phase, block: u32, candidate: u32, value: f64) -> Trial {
        let order = Order { phase, block, candidate: Candidate(candidate) };
        Trial::new(order, 1.0, Outcome::Value(value))
    }

    /// Plan 1 is 30 % faster, plan 2 is 1 % slower, and whole rounds drift by far more.
    fn race(rounds: u32) -> Vec<Trial> {
        let mut trials: Vec<Trial> =
            [1.0, 1.01, 0.99, 1.0].iter().map(|&v| trial(Phase::Noise, 0, 0, v)).collect();
        for round in 0..rounds {
            let drift = 1.0 + 0.5 * f64::from(round);
            let wobble = if round % 2 == 0 { 1.01 } else { 0.99 };
            trials.push(trial(Phase::Race, round, 0, drift));
            trials.push(trial(Phase::Race, round, 1, 0.7 * drift * wobble));
            trials.push(trial(Phase::Race, round, 2, 1.01 * drift / wobble));
        }
        trials
    }

    #[test]
    fn pairing_by_round_removes_drift() {
        let race = Race::new(&race(4), Phase::Race, &settings(Goal::Minimize, 100));
        let faster = race.difference(Candidate(1), DEFAULT);
        assert!((faster.centre - 0.7_f64.ln()).abs() < 0.01, "{faster:?}");
        assert!(faster.high < 0.0);
        assert_eq!(faster.rounds, 4);
        assert_eq!(race.survivors(4), [DEFAULT, Candidate(1)]);
        let same = race.difference(Candidate(2), DEFAULT);
        assert!(same.low < 0.0 && same.high > 0.0, "{same:?}");
    }

    #[test]
    fn nobody_is_dropped_before_the_third_round() {
        let race = Race::new(&race(4), Phase::Race, &settings(Goal::Minimize, 100));
        assert_eq!(race.survivors(0).len(), 3);
        assert_eq!(race.survivors(2).len(), 3);
        assert_eq!(race.survivors(4).len(), 2);
    }

    #[test]
    fn a_round_that_was_cut_short_drops_nobody() {
        let mut trials = race(4);
        // The leader's run of the last round was not made.
        trials.retain(|t| !(t.order.block == 3 && t.order.candidate == Candidate(1)));
        let race = Race::new(&trials, Phase::Race, &settings(Goal::Minimize, 100));
        assert!(race.standing().contains(&Candidate(1)));
        assert_eq!(race.leader(&race.standing()), Candidate(1));
    }

    #[test]
    fn a_plan_that_is_out_leaves_at_once() {
        let mut trials = race(1);
        trials.last_mut().unwrap().outcome = Outcome::Failed(Failure::NotApplied("no".into()));
        let race = Race::new(&trials, Phase::Race, &settings(Goal::Minimize, 100));
        assert_eq!(race.racers.len(), 3);
        assert_eq!(race.survivors(1), [DEFAULT, Candidate(1)]);
    }

    #[test]
    fn a_run_that_failed_by_chance_is_made_again_in_its_round() {
        let mut trials = race(2);
        trials.last_mut().unwrap().outcome = Outcome::Failed(Failure::Exit(3));
        let race = Race::new(&trials, Phase::Race, &settings(Goal::Minimize, 100));
        assert_eq!(race.missing(1), [Candidate(2)]);
        assert_eq!(race.difference(Candidate(2), DEFAULT).rounds, 1);
    }

    #[test]
    fn maximising_turns_the_order_round() {
        let race = Race::new(&race(4), Phase::Race, &settings(Goal::Maximize, 100));
        assert_eq!(race.leader(&race.racers), Candidate(2));
    }

    /// A race of the default and a plan that takes 0.8 times as long, with 5 % noise, until its
    /// interval is narrow enough for this precision, or for 80 rounds: its rounds, and whether the
    /// interval holds the truth.
    fn until_narrow(seed: u64, precision: f64) -> (usize, bool) {
        use rand::SeedableRng;
        use rand_distr::{Distribution, StandardNormal};
        let mut rng = rand::rngs::SmallRng::seed_from_u64(seed);
        let mut run = |phase, block, candidate, cost: f64| {
            let noise: f64 = StandardNormal.sample(&mut rng);
            trial(phase, block, candidate, (cost + 0.05 * noise).exp())
        };
        let mut trials: Vec<Trial> = (0..5).map(|_| run(Phase::Noise, 0, 0, 0.0)).collect();
        let settings = Settings { precision, ..settings(Goal::Minimize, 200) };
        let truth = 0.8_f64.ln();
        let mut last = Difference::none(0);
        for round in 0..80 {
            trials.extend([run(Phase::Race, round, 0, 0.0), run(Phase::Race, round, 1, truth)]);
            let race = Race::new(&trials, Phase::Race, &settings);
            last = race.difference(Candidate(1), DEFAULT);
            if last.rounds >= LEAST_ROUNDS && last.is_within(precision) {
                break;
            }
        }
        (last.rounds, last.low <= truth && truth <= last.high)
    }

    #[test]
    fn the_interval_that_is_narrow_enough_holds_and_comes_early() {
        let races: Vec<(usize, bool)> = (0..400).map(|seed| until_narrow(seed, 0.05)).collect();
        let held = races.iter().filter(|(_, held)| *held).count();
        assert!(held >= 380, "{held} of 400");
        let mut rounds: Vec<usize> = races.iter().map(|(rounds, _)| *rounds).collect();
        rounds.sort_unstable();
        // The intervals of all rounds alone need 23 rounds in the median.
        assert!((13..=17).contains(&rounds[200]), "{}", rounds[200]);
    }

    #[test]
    fn more_plans_widen_the_interval() {
        let width = |trials: &[Trial]| {
            let race = Race::new(trials, Phase::Race, &settings(Goal::Minimize, 100));
            let difference = race.difference(Candidate(1), DEFAULT);
            difference.high - difference.low
        };
        let twice = |t: Trial| {
            let mut other = t.clone();
            other.order.candidate.0 += 2;
            let raced = t.order.phase == Phase::Race && t.order.candidate != DEFAULT;
            raced.then_some(other).into_iter().chain([t])
        };
        let many: Vec<Trial> = race(12).into_iter().flat_map(twice).collect();
        assert!(width(&many) > width(&race(12)));
    }
}
