//! Decides on rounds: which plans run in the next one, when losers leave, and when to stop.
//!
//! The race decides which plans are left. Its leader is the one of these that the screening model
//! expects to be best from all runs, because the rounds alone are few. If the race leaves open
//! whether the leader beats the default, a final of these two, on fresh runs, decides. The final is
//! a single comparison, and its leader was picked before it began, so its figure has no selection
//! bias. A race of one plan against the default is its own final.
//!
//! Once the leader is shown to beat the default, the rounds of the two continue until the interval
//! is narrow enough.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::budget::{Shares, is_screened, short_list};
use super::model::{Effort, Surface};
use super::race::{Difference, LEAST_ROUNDS, Race};
use super::{Decision, Settings, Stop, failures, propose};
use crate::evidence::{Order, Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};

/// Share of the resolution by which a simpler plan may be expected to cost more than the leader.
pub const NO_LOSS: f64 = 0.1;

/// The verdict about the best plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The plan expected to be best among those left; the default when it leads.
    pub leader: Candidate,
    /// Its cost minus the default's: from the final if there was one.
    pub difference: Difference,
}

impl Verdict {
    /// Whether the leader is better than the default, at the confidence asked for.
    #[must_use]
    pub fn is_better(&self) -> bool {
        self.difference.high < 0.0
    }
}

/// The verdict about the best plan, at any time. `draws` gives the surfaces that agree with the
/// evidence.
#[must_use]
pub fn verdict<D: AsRef<[Surface]>>(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    draws: impl FnOnce() -> D,
) -> Verdict {
    let out = failures::failed_plans(settings, evidence);
    let last = Race::new(evidence, Phase::Final, settings);
    let finalist = last.racers.iter().find(|plan| **plan != DEFAULT && !out.contains(plan));
    if let Some(&leader) = finalist {
        return Verdict { leader, difference: last.difference(leader, DEFAULT) };
    }
    let race = Race::new(evidence, Phase::Race, settings);
    let survivors: Vec<Candidate> =
        race.standing().into_iter().filter(|plan| !out.contains(plan)).collect();
    let leader =
        leader(shape, settings, is_screened(shape, settings, evidence), &race, &survivors, draws);
    Verdict { leader, difference: race.difference(leader, DEFAULT) }
}

/// The plan expected to be best among the survivors of a race, or one that changes less and is
/// expected to be as good.
fn leader<D: AsRef<[Surface]>>(
    shape: &Shape,
    settings: &Settings,
    is_screened: bool,
    race: &Race,
    survivors: &[Candidate],
    draws: impl FnOnce() -> D,
) -> Candidate {
    let of_race = race.leader(survivors);
    if survivors.len() < 2 {
        return of_race;
    }
    // A plan that the race has shown to be better than the default stays better.
    let is_shown = |plan| race.difference(plan, DEFAULT).high < 0.0;
    let must_be_shown = is_shown(of_race);
    let open: Vec<Candidate> = survivors
        .iter()
        .copied()
        .filter(
            |&plan| if plan == DEFAULT { !must_be_shown } else { is_shown(plan) || !must_be_shown },
        )
        .collect();
    if !is_screened {
        let loss = |plan| race.difference(plan, of_race).centre;
        return simplest(shape, settings, of_race, &open, loss);
    }
    match open.as_slice() {
        [only] => *only,
        several => {
            let draws = draws();
            let draws = draws.as_ref();
            let best = propose::best(draws, several).unwrap_or(of_race);
            let loss = |plan| propose::typical_loss(draws, plan, best);
            simplest(shape, settings, best, several, loss)
        }
    }
}

/// The plan that changes least among those expected to cost no more than `plan`, but for
/// differences that do not matter: no machine-wide setting if possible, and few settings.
fn simplest(
    shape: &Shape,
    settings: &Settings,
    best: Candidate,
    plans: &[Candidate],
    loss: impl Fn(Candidate) -> f64,
) -> Candidate {
    if best == DEFAULT {
        return best;
    }
    let slack = settings.resolution.ln_1p() * NO_LOSS;
    let as_good = plans.iter().copied().filter(|&plan| {
        plan != DEFAULT
            && (plan == best || shape.burden(plan) < shape.burden(best) && loss(plan) <= slack)
    });
    as_good
        .min_by(|&a, &b| shape.burden(a).cmp(&shape.burden(b)).then(loss(a).total_cmp(&loss(b))))
        .unwrap_or(best)
}

/// The next round, or the end.
pub fn next_decision(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
) -> Decision {
    let race = Race::new(evidence, Phase::Race, settings);
    if race.rounds() <= 1 {
        let starters = starters(shape, settings, evidence);
        if starters.len() < 2 {
            return Decision::Stop(Stop::NothingToCompare);
        }
        let ran = race.ran(0);
        let missing: Vec<Candidate> =
            starters.into_iter().filter(|plan| !ran.contains(plan)).collect();
        if !missing.is_empty() {
            let left = shares.left(evidence);
            return round(settings, Phase::Race, 0, missing, left, shares.exhausted);
        }
    }
    if !evidence.iter().any(|t| t.order.phase == Phase::Final)
        && let Some(decision) = next_of_race(shape, settings, evidence, shares, &race)
    {
        return decision;
    }
    next_of_final(shape, settings, evidence, shares)
}

/// The plans that start in the race. They follow from the evidence before it, so a first round that
/// was cut short is completed with the same plans, and with the next one in place of a plan that
/// failed in it.
fn starters(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Vec<Candidate> {
    let before = evidence.iter().take_while(|t| t.order.phase != Phase::Race).count();
    let before = &evidence[..before];
    let out = failures::failed_plans(settings, evidence);
    if let Some(short) = short_list(shape, settings, evidence) {
        return [DEFAULT].into_iter().chain(short).filter(|plan| !out.contains(plan)).collect();
    }
    if is_screened(shape, settings, evidence) {
        let shares = Shares::new(shape, settings, before);
        return propose::racers(shape, settings, before, &out, shares.racers);
    }
    shape.candidates().filter(|plan| !out.contains(plan)).collect()
}

/// The race's next round or its end; `None` if the final has to decide.
fn next_of_race(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
    race: &Race,
) -> Option<Decision> {
    let is_pair = race.racers.len() == 2;
    let left = if is_pair { shares.left(evidence) } else { shares.left_to_race(evidence) };
    let last = race.rounds() - 1;
    let missing = race.missing(last);
    if !missing.is_empty() {
        let fits = missing.len() <= left;
        return fits.then(|| round(settings, Phase::Race, last, missing, left, shares.exhausted));
    }
    let survivors = race.survivors(last + 1);
    if (last as usize + 1) < LEAST_ROUNDS && survivors.len() <= left {
        return Some(round(settings, Phase::Race, last + 1, survivors, left, shares.exhausted));
    }
    let leader = if is_pair {
        survivors.iter().copied().find(|&plan| plan != DEFAULT).unwrap_or(DEFAULT)
    } else {
        let draws = || propose::surfaces(shape, settings, evidence, Effort::CHOICE);
        let is_screened = is_screened(shape, settings, evidence);
        leader(shape, settings, is_screened, race, &survivors, draws)
    };
    let against_default = race.difference(leader, DEFAULT);
    let others = || survivors.iter().copied().filter(|&plan| plan != leader && plan != DEFAULT);
    let is_won = against_default.high < 0.0;
    if last as usize + 1 >= LEAST_ROUNDS {
        let is_alone = others().next().is_none();
        if is_alone
            && (leader == DEFAULT || is_won && against_default.is_within(settings.precision))
        {
            return Some(Decision::Stop(Stop::Decided));
        }
        let slack = settings.resolution.ln_1p();
        let equivalent = |plan| race.difference(plan, leader).low > -slack;
        let is_settled = if is_won { !is_alone } else { against_default.low > -slack };
        if is_settled && others().all(equivalent) {
            return Some(Decision::Stop(Stop::Equivalent));
        }
        // Only the default is left to compare with, and the final does that with less doubt.
        if is_alone && !is_won && !is_pair {
            return None;
        }
    }
    // The race may use the runs kept for the final if no final is needed.
    let settled = leader == DEFAULT || is_won;
    let left = if settled { shares.left(evidence) } else { left };
    if settled || survivors.len() <= left {
        return Some(round(settings, Phase::Race, last + 1, survivors, left, shares.exhausted));
    }
    None
}

/// The final's next round or its end.
pub fn next_of_final(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
) -> Decision {
    let left = shares.left(evidence);
    let draws = || propose::surfaces(shape, settings, evidence, Effort::CHOICE);
    let leader = verdict(shape, settings, evidence, draws).leader;
    if leader == DEFAULT {
        return Decision::Stop(Stop::Decided);
    }
    let pair = vec![DEFAULT, leader];
    let last = Race::new(evidence, Phase::Final, settings);
    let rounds = last.rounds();
    // A plan that failed in the final makes room for the next.
    if rounds > 0 && last.racers.contains(&leader) {
        let missing: Vec<Candidate> =
            pair.iter().copied().filter(|plan| !last.ran(rounds - 1).contains(plan)).collect();
        if !missing.is_empty() {
            return round(settings, Phase::Final, rounds - 1, missing, left, shares.exhausted);
        }
        let difference = last.difference(leader, DEFAULT);
        if rounds as usize >= LEAST_ROUNDS {
            let is_won = difference.high < 0.0;
            if difference.low > 0.0 || is_won && difference.is_within(settings.precision) {
                return Decision::Stop(Stop::Decided);
            }
            if !is_won && difference.low > -settings.resolution.ln_1p() {
                return Decision::Stop(Stop::Equivalent);
            }
        }
    }
    round(settings, Phase::Final, rounds, pair, left, shares.exhausted)
}

/// A round of these plans in random order, or the end if the runs do not suffice: a partial round
/// allows no comparison.
pub fn round(
    settings: &Settings,
    phase: Phase,
    number: u32,
    mut plans: Vec<Candidate>,
    left: usize,
    exhausted: Stop,
) -> Decision {
    if plans.len() > left {
        return Decision::Stop(exhausted);
    }
    let stream = (u64::from(number) + 1) << 8 | phase as u64;
    let mut rng =
        StdRng::seed_from_u64(settings.seed.wrapping_mul(0x9E37_79B9).wrapping_add(stream));
    plans.shuffle(&mut rng);
    Decision::Run(
        plans.into_iter().map(|candidate| Order { phase, block: number, candidate }).collect(),
    )
}
