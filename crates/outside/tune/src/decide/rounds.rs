//! Rounds: who runs in the next one, when losers leave, and when it is enough.
//!
//! The race says which plans are left. Its leader is, of these, the one that the screening
//! model expects to be best from all runs: the rounds alone are few. Where it leaves open
//! whether the leader beats the default, a final of these two alone, on fresh runs, decides.
//! The final is a single comparison, and the leader was picked before it began, so its figure
//! carries no luck of the pick. A race of one plan against the default is its own final.
//!
//! Once the leader is shown to beat the default, the rounds of the two go on until the interval
//! says by how much.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::budget::{Shares, is_large};
use super::model::Surface;
use super::race::{Difference, LEAST_ROUNDS, Race};
use super::{Decision, Settings, Stop, failed, propose};
use crate::evidence::{Order, Phase, Trial};
use crate::shape::{Candidate, DEFAULT, Shape};

/// What the evidence says about the best plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The plan expected to be best among those left; the default when it leads.
    pub leader: Candidate,
    /// Its cost less the default's: from the final where there was one.
    pub difference: Difference,
}

impl Verdict {
    /// Whether the leader is better than the default, at the confidence asked for.
    #[must_use]
    pub fn is_better(&self) -> bool {
        self.difference.high < 0.0
    }
}

/// What the evidence says about the best plan, at any time.
#[must_use]
pub fn verdict(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Verdict {
    verdict_by(shape, settings, evidence, || {
        propose::surfaces(shape, settings, evidence, propose::DRAWS)
    })
}

/// The same, where the surfaces that agree with the evidence are known, or can be had.
#[must_use]
pub fn verdict_by<D: AsRef<[Surface]>>(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    draws: impl FnOnce() -> D,
) -> Verdict {
    let out = failed(evidence);
    let last = Race::new(evidence, Phase::Final, settings);
    let finalist = last.racers.iter().find(|plan| **plan != DEFAULT && !out.contains(plan));
    if let Some(&leader) = finalist {
        return Verdict { leader, difference: last.difference(leader, DEFAULT) };
    }
    let race = Race::new(evidence, Phase::Race, settings);
    let survivors: Vec<Candidate> =
        race.standing().into_iter().filter(|plan| !out.contains(plan)).collect();
    let leader = leader(shape, &race, &survivors, draws);
    Verdict { leader, difference: race.difference(leader, DEFAULT) }
}

/// The plan expected to be best among the survivors of a race.
fn leader<D: AsRef<[Surface]>>(
    shape: &Shape,
    race: &Race,
    survivors: &[Candidate],
    draws: impl FnOnce() -> D,
) -> Candidate {
    let of_race = race.leader(survivors);
    if !is_large(shape) || survivors.len() < 2 {
        return of_race;
    }
    // What the race has shown to be better than the default stays better.
    let is_shown = race.difference(of_race, DEFAULT).high < 0.0;
    let open: Vec<Candidate> =
        survivors.iter().copied().filter(|&plan| plan != DEFAULT || !is_shown).collect();
    match open.as_slice() {
        [only] => *only,
        several => propose::best(draws().as_ref(), several).unwrap_or(of_race),
    }
}

/// The next round, or the end.
pub fn next(shape: &Shape, settings: &Settings, evidence: &[Trial], shares: &Shares) -> Decision {
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

/// Who starts in the race: told from what was known before it, so that a first round that
/// was cut short is completed with the same plans, and with the next in place of one that
/// failed in it.
fn starters(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Vec<Candidate> {
    let before = evidence.iter().take_while(|t| t.order.phase != Phase::Race).count();
    let before = &evidence[..before];
    let out = failed(evidence);
    if is_large(shape) {
        let shares = Shares::new(shape, settings, before);
        return propose::racers(shape, settings, before, &out, shares.racers);
    }
    shape.candidates().filter(|plan| !out.contains(plan)).collect()
}

/// The race's next round or its end; `None` when the final is to decide.
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
        let draws = || propose::surfaces(shape, settings, evidence, propose::DRAWS);
        leader(shape, race, &survivors, draws)
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
        // Only the default is left to compare with: the final does that with less doubt.
        if is_alone && !is_won && !is_pair {
            return None;
        }
    }
    // What is kept for the final is the race's own where no final is needed.
    let settled = leader == DEFAULT || is_won;
    let left = if settled { shares.left(evidence) } else { left };
    if settled || survivors.len() <= left {
        return Some(round(settings, Phase::Race, last + 1, survivors, left, shares.exhausted));
    }
    None
}

/// The final's next round or its end.
fn next_of_final(
    shape: &Shape,
    settings: &Settings,
    evidence: &[Trial],
    shares: &Shares,
) -> Decision {
    let left = shares.left(evidence);
    let leader = verdict(shape, settings, evidence).leader;
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

/// A round of these plans in random order, or the end: a part of a round compares
/// nothing.
fn round(
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
