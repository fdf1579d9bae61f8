//! Computes verdicts from the trials by the rules of the experiment.
//!
//! A verdict requires an interval that supports it. With a band, a claim is reproduced when the
//! median is in the band and the interval excludes the opposite direction (without a direction:
//! when the whole interval is in the band). Outside the band, it is direction only when the
//! interval is on the right side, and not reproduced when the whole interval is on the wrong side.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::bootstrap::Estimate;
use super::cells::{Cell, cells};
use super::definition::{Claim, Experiment, Kind, PaperValue, ScaleName};
use super::quantity::{At, Quantity, describe};
use super::trial::{Outcome, Trial};
use crate::verdict::Verdict;

/// An experiment with its verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The weakest of the claims' verdicts.
    pub verdict: Verdict,
    /// The claims in the experiment's order, without those about levels that the scale leaves out.
    pub claims: Vec<ClaimResult>,
    /// The data of the picture, by cell.
    pub points: Vec<Point>,
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimResult {
    /// The claim and its rule.
    #[serde(skip)]
    pub claim: Claim,
    /// The claim in words.
    pub text: String,
    /// The paper's value.
    pub paper: Option<PaperValue>,
    /// Our values by name: one, or several in the paper's order.
    pub values: Vec<(String, Estimate)>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why there is no value or no verdict, or a known reason for a difference.
    pub remark: Option<String>,
}

/// A cell of the picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The levels.
    pub at: At,
    /// The shell command that repeats it.
    pub command: String,
    /// The picture's metric, if it is a number.
    pub estimate: Option<Estimate>,
    /// The last value, if the metric is not a number.
    pub value: Option<Value>,
    /// Why there is neither.
    pub missing: Option<String>,
}

/// The values of a cell by round and key, or why there are none.
type Found<'a> = Result<BTreeMap<u32, Values<'a>>, Missing>;
/// Values by key, of all trials of a round. Experiments that share a command may read different
/// numbers.
type Values<'a> = BTreeMap<&'a str, &'a Result<Value, String>>;

/// Why a value is missing.
#[derive(Clone, Debug, PartialEq)]
struct Missing {
    verdict: Verdict,
    why: String,
}

impl Missing {
    /// Something is not available here.
    fn here(why: String) -> Self {
        Self { verdict: Verdict::NotRunHere, why }
    }

    /// Adds the cell to the reason.
    fn of(mut self, at: &At) -> Self {
        if !at.is_empty() {
            self.why = format!("{}: {}", describe(at), self.why);
        }
        self
    }
}

struct Evidence<'a> {
    experiment: &'a Experiment,
    cells: Vec<(Cell, Found<'a>)>,
}

impl Experiment {
    /// Compares the trials of a scale with the paper.
    #[must_use]
    pub fn judge(&self, scale: ScaleName, trials: &[Trial]) -> Judged {
        let all = cells(self, scale).into_iter().map(|cell| {
            let found = found(&cell.command, trials);
            (cell, found)
        });
        let evidence = Evidence { experiment: self, cells: all.collect() };
        let judged = self.claims.iter().filter(|claim| evidence.has(claim));
        let claims: Vec<ClaimResult> = judged.map(|claim| evidence.claim(claim)).collect();
        Judged {
            verdict: claims.iter().map(|claim| claim.verdict).min().unwrap_or(Verdict::Shown),
            claims,
            points: evidence.points(),
        }
    }
}

/// The values of a command's trials. A failure does not count once a later trial has succeeded.
fn found<'a>(command: &str, trials: &'a [Trial]) -> Found<'a> {
    let mut values: BTreeMap<u32, Values<'a>> = BTreeMap::new();
    let mut failure = None;
    for trial in trials.iter().filter(|trial| trial.command == command) {
        match &trial.outcome {
            Outcome::Values(v) => {
                let all = values.entry(trial.round).or_default();
                all.extend(v.iter().map(|(key, value)| (key.as_str(), value)));
            }
            Outcome::Failed(why) => {
                failure = Some(Missing { verdict: Verdict::Failed, why: why.clone() });
            }
            Outcome::NotHere(why) => failure = Some(Missing::here(why.clone())),
        }
    }
    match (values.is_empty(), failure) {
        (false, _) => Ok(values),
        (true, Some(missing)) => Err(missing),
        (true, None) => Err(Missing {
            verdict: Verdict::NotReached,
            why: "the run ended before it; go on with --resume".to_owned(),
        }),
    }
}

impl Evidence<'_> {
    /// Whether the scale has the cells of a claim.
    fn has(&self, claim: &Claim) -> bool {
        let quantities = claim.of.iter().chain(&claim.order);
        let mut sets = quantities.flat_map(|quantity| [Some(&quantity.at), quantity.over.as_ref()]);
        sets.all(|at| at.is_none_or(|at| self.cells.iter().any(|(cell, _)| within(&cell.at, at))))
    }

    /// The metric in the cells of `at`, by round, combined over several cells as the quantity says.
    /// Rounds in which a cell has no value are left out, unless no round would remain.
    fn rounds(&self, quantity: &Quantity, at: &At) -> Result<BTreeMap<u32, f64>, Missing> {
        let metric = self.experiment.metrics.get(&quantity.metric);
        let key = metric.map(|m| m.key()).unwrap_or_default();
        let mut numbers: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let mut missing = None;
        let chosen: Vec<&At> =
            self.cells.iter().map(|(cell, _)| &cell.at).filter(|cell| within(cell, at)).collect();
        for cell in &chosen {
            let mut of_cell = self.of_cell(&key, cell, &mut missing)?;
            if let Some(from) = &quantity.speedup_from {
                let levels = cell.iter().chain(from).map(|(f, l)| (f.clone(), l.clone()));
                of_cell = ratios(&self.of_cell(&key, &levels.collect(), &mut missing)?, &of_cell);
            }
            for (round, number) in of_cell {
                numbers.entry(round).or_default().push(number);
            }
        }
        numbers.retain(|_, numbers| numbers.len() == chosen.len());
        match missing.filter(|_| numbers.is_empty()) {
            Some(missing) => Err(missing),
            None => Ok(numbers.into_iter().map(|(r, all)| (r, quantity.of_cells(&all))).collect()),
        }
    }

    /// The metric in one cell, by round. `missing` gets the reason why a round has no value.
    fn of_cell(
        &self,
        key: &str,
        at: &At,
        missing: &mut Option<Missing>,
    ) -> Result<BTreeMap<u32, f64>, Missing> {
        let Some((_, found)) = self.cells.iter().find(|(cell, _)| cell.at == *at) else {
            return Err(Missing::here("the scale leaves it out".to_owned()).of(at));
        };
        let rounds = found.as_ref().map_err(|missing| missing.clone().of(at))?;
        let values = rounds.iter().filter_map(|(round, values)| match recorded(values, key) {
            Ok(value) => Some((*round, value.as_f64().unwrap_or(f64::NAN))),
            Err(why) => {
                *missing = Some(why.of(at));
                None
            }
        });
        Ok(values.collect())
    }

    /// The values of a quantity by round.
    fn values(&self, quantity: &Quantity) -> Result<BTreeMap<u32, f64>, Missing> {
        let values = self.rounds(quantity, &quantity.at)?;
        let values = match &quantity.over {
            None => values,
            Some(over) => ratios(&values, &self.rounds(quantity, over)?),
        };
        let finite: BTreeMap<u32, f64> =
            values.into_iter().filter(|(_, v)| v.is_finite()).collect();
        match finite.is_empty() {
            true => Err(Missing::here(format!("no round has all of {}", quantity.label()))),
            false => Ok(finite),
        }
    }

    fn claim(&self, claim: &Claim) -> ClaimResult {
        let result = |verdict, values, remark: Option<String>| ClaimResult {
            claim: claim.clone(),
            text: claim.text.clone(),
            paper: claim.paper.clone(),
            values,
            verdict,
            remark: match (remark, claim.remark.clone()) {
                (Some(why), Some(known)) if verdict == Verdict::Undecided => {
                    Some(format!("{why}. {known}"))
                }
                (why, known) => why.or(known.filter(|_| verdict != Verdict::Reproduced)),
            },
        };
        if let Some(quantity) = &claim.of {
            return match self.values(quantity) {
                Err(missing) => result(missing.verdict, Vec::new(), Some(missing.why)),
                Ok(values) => {
                    let values: Vec<f64> = values.into_values().collect();
                    let estimate = Estimate::of(&values);
                    let verdict = estimate.map_or(Verdict::NotRunHere, |e| number(claim, &e));
                    let named = estimate.map(|e| (quantity.label(), e)).into_iter().collect();
                    result(
                        verdict,
                        named,
                        unsure(verdict, &estimate.into_iter().collect::<Vec<_>>()),
                    )
                }
            };
        }
        if claim.order.is_empty() {
            let shown: Vec<_> = self.cells.iter().map(|(_, found)| self.shown(found)).collect();
            let missing = shown.iter().find_map(|values| values.as_ref().err().cloned());
            let none = missing.as_ref().filter(|_| shown.iter().all(Result::is_err));
            let verdict = none.map_or(Verdict::Shown, |missing| missing.verdict);
            return result(verdict, Vec::new(), missing.map(|missing| missing.why));
        }
        let found: Vec<_> = claim.order.iter().map(|q| (q.label(), self.values(q))).collect();
        let missing = found.iter().find_map(|(_, values)| values.as_ref().err().cloned());
        let there: Vec<(String, BTreeMap<u32, f64>)> =
            found.into_iter().filter_map(|(name, values)| Some((name, values.ok()?))).collect();
        if there.len() < 2 {
            let (verdict, why) =
                missing.map_or((Verdict::NotRunHere, None), |m| (m.verdict, Some(m.why)));
            return result(verdict, Vec::new(), why);
        }
        let verdict = order(&there.iter().map(|(_, values)| values).collect::<Vec<_>>());
        let estimate = |values: &BTreeMap<u32, f64>| {
            Estimate::of(&values.values().copied().collect::<Vec<_>>())
        };
        let values: Vec<(String, Estimate)> =
            there.iter().filter_map(|(n, v)| Some((n.clone(), estimate(v)?))).collect();
        let estimates: Vec<Estimate> = values.iter().map(|(_, e)| *e).collect();
        let remark = missing.map(|m| m.why).or_else(|| unsure(verdict, &estimates));
        result(verdict, values, remark)
    }

    /// The picture's values of a cell, by round.
    fn shown<'b>(&self, found: &Found<'b>) -> Result<Vec<&'b Value>, Missing> {
        let name = &self.experiment.picture;
        let key = self.experiment.metrics.get(name).map(|m| m.key()).unwrap_or_default();
        let rounds = found.as_ref().map_err(Missing::clone)?;
        let all = || rounds.values().map(|values| recorded(values, &key));
        match all().all(|value| value.is_err()) {
            true => all().collect(),
            false => Ok(all().filter_map(Result::ok).collect()),
        }
    }

    fn points(&self) -> Vec<Point> {
        let metric = self.experiment.metrics.get(&self.experiment.picture);
        let is_number = metric.is_none_or(|m| m.kind == Kind::Number);
        let point = |(cell, found): &(Cell, Found<'_>)| {
            let values = self.shown(found);
            let there = values.as_ref().ok();
            let numbers = |values: &Vec<&Value>| {
                Estimate::of(&values.iter().filter_map(|v| v.as_f64()).collect::<Vec<_>>())
            };
            Point {
                at: cell.at.clone(),
                command: cell.command.clone(),
                estimate: there.filter(|_| is_number).and_then(numbers),
                value: there.filter(|_| !is_number).and_then(|v| v.last().copied().cloned()),
                missing: values.err().map(|missing| missing.why),
            }
        };
        self.cells.iter().map(point).collect()
    }
}

/// The value that a trial recorded under a key.
fn recorded<'a>(values: &Values<'a>, key: &str) -> Result<&'a Value, Missing> {
    match values.get(key) {
        Some(Ok(value)) => Ok(value),
        Some(Err(why)) => Err(Missing::here(why.clone())),
        None => Err(Missing::here(format!("{key} was not recorded"))),
    }
}

fn within(cell: &At, at: &At) -> bool {
    at.iter().all(|(factor, level)| cell.get(factor) == Some(level))
}

/// The ratios of the rounds that both have.
fn ratios(values: &BTreeMap<u32, f64>, over: &BTreeMap<u32, f64>) -> BTreeMap<u32, f64> {
    values.iter().filter_map(|(round, v)| Some((*round, v / over.get(round)?))).collect()
}

fn number(claim: &Claim, estimate: &Estimate) -> Verdict {
    let Some([low, high]) = estimate.interval else { return Verdict::Undecided };
    let side = match (claim.above, claim.below) {
        (Some(least), _) => Some((low > least, high < least)),
        (_, Some(most)) => Some((high < most, low > most)),
        _ => None,
    };
    let (is_in, is_whole, is_out) = match claim.band {
        None => (true, true, false),
        Some([least, most]) => (
            (least..=most).contains(&estimate.value),
            least <= low && high <= most,
            high < least || most < low,
        ),
    };
    match side {
        Some((true, _)) if is_in => Verdict::Reproduced,
        Some((true, _)) => Verdict::DirectionOnly,
        Some((_, true)) if is_out || claim.band.is_none() => Verdict::NotReproduced,
        None | Some(_) if claim.band.is_some() && is_whole => Verdict::Reproduced,
        None if is_out => Verdict::NotReproduced,
        _ => Verdict::Undecided,
    }
}

/// Reproduced when every value is significantly above the next one; direction only when at least
/// the first is significantly above all others; not reproduced when it is significantly below one
/// of them.
fn order(values: &[&BTreeMap<u32, f64>]) -> Verdict {
    let sure = |a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>| {
        let ratios: Vec<f64> = ratios(a, b).into_values().collect();
        let interval = Estimate::of(&ratios).and_then(|estimate| estimate.interval);
        interval.map_or((false, false), |[low, high]| (low > 1.0, high < 1.0))
    };
    if values.windows(2).all(|pair| sure(pair[0], pair[1]).0) {
        return Verdict::Reproduced;
    }
    let first: Vec<(bool, bool)> = values[1..].iter().map(|other| sure(values[0], other)).collect();
    if first.iter().any(|(_, below)| *below) {
        Verdict::NotReproduced
    } else if first.iter().all(|(above, _)| *above) {
        let reversed = values.windows(2).any(|pair| sure(pair[0], pair[1]).1);
        if reversed { Verdict::DirectionOnly } else { Verdict::Undecided }
    } else {
        Verdict::Undecided
    }
}

/// Why there is no verdict.
fn unsure(verdict: Verdict, estimates: &[Estimate]) -> Option<String> {
    (verdict == Verdict::Undecided).then(|| {
        match estimates.iter().any(|estimate| estimate.interval.is_none()) {
            true => "fewer than three runs have no interval".to_owned(),
            false => "the interval includes a limit between two verdicts".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests;
