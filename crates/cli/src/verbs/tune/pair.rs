//! The result of pairs of runs, of which one is under a plan and one is not.

use std::io::Write;

use anyhow::bail;
use numapilot_cli_kit::terminal::{Terminal, plural, printable};
use numapilot_place::Plan;
use numapilot_trials::fleet::Estimate;
use numapilot_tune::evidence::{Goal, Phase, Trial};
use numapilot_tune::run::end_of_output;
use numapilot_tune::shape::{Candidate, DEFAULT};
use numapilot_tune::statistics::median;
use serde::Serialize;

/// The plan that is measured.
pub const PLAN: Candidate = Candidate(1);

/// The result. The fields are documented in docs/src/json.md.
#[derive(Serialize)]
pub struct Outcome {
    plan: String,
    metric: String,
    goal: Goal,
    /// Pairs of which both runs have a value.
    pairs: usize,
    default: Figures,
    figures: Figures,
    ratio: Option<f64>,
    confidence: Option<[f64; 2]>,
    reason: Option<String>,
}

/// The values of one side.
#[derive(Serialize)]
struct Figures {
    median: Option<f64>,
    values: Vec<f64>,
    failed: usize,
    peak_rss_bytes: Option<u64>,
}

impl Outcome {
    /// The result of these runs, with an interval of this confidence (0 to 1).
    ///
    /// # Errors
    /// Every run without the plan failed.
    pub fn of(
        plan: &Plan,
        metric: String,
        goal: Goal,
        confidence: f64,
        evidence: &[Trial],
    ) -> anyhow::Result<Self> {
        let of = |candidate: Candidate| -> Vec<&Trial> {
            let counts = |trial: &&Trial| {
                trial.order.phase == Phase::Race && trial.order.candidate == candidate
            };
            evidence.iter().filter(counts).collect()
        };
        let (without, under) = (of(DEFAULT), of(PLAN));
        if without.iter().all(|trial| trial.value().is_none())
            && let Some(last) = without.last()
        {
            let failure = last.failure().map(ToString::to_string).unwrap_or_default();
            let output = end_of_output(&last.remains.output);
            bail!("runs fail without any plan: {failure}. {output}");
        }
        let difference = |trial: &&Trial| {
            let is_other = |other: &&&Trial| other.order.block == trial.order.block;
            Some(trial.cost(goal)? - without.iter().find(is_other)?.cost(goal)?)
        };
        let differences: Vec<f64> = under.iter().filter_map(difference).collect();
        let pairs = differences.len();
        let estimate = Estimate::of_pairs(differences, goal, 1.0 - confidence);
        let failure = under.iter().rev().find_map(|trial| trial.failure());
        Ok(Self {
            plan: plan.to_string(),
            metric,
            goal,
            pairs,
            default: Figures::of(&without),
            figures: Figures::of(&under),
            ratio: estimate.as_ref().map(|estimate| estimate.ratio),
            confidence: estimate.and_then(|estimate| estimate.confidence),
            reason: failure.map(ToString::to_string),
        })
    }

    /// Whether the plan was compared.
    pub fn has_figure(&self) -> bool {
        self.ratio.is_some()
    }

    /// Prints it for people.
    ///
    /// # Errors
    /// Those of writing.
    pub fn print(&self, terminal: &Terminal) -> anyhow::Result<()> {
        let mut out = terminal.out();
        let plan = printable(&self.plan);
        writeln!(out, "{plan} against the default, in {}", plural(self.pairs, "pair"))?;
        let median = |figures: &Figures| match figures.median {
            Some(median) => format!("{median:.4}"),
            None => "no figure".to_owned(),
        };
        let (default, figures) = (median(&self.default), median(&self.figures));
        let metric = printable(&self.metric);
        writeln!(out, "{metric}: {default} without the plan, {figures} with it (medians)")?;
        match (self.ratio, self.confidence) {
            (Some(ratio), Some([low, high])) => {
                writeln!(out, "ratio: {ratio:.3} ({low:.3} to {high:.3})")?;
            }
            (Some(ratio), None) => writeln!(out, "ratio: {ratio:.3}; {}", self.lack())?,
            (None, _) => {}
        }
        if let Some(reason) = &self.reason {
            let failed = plural(self.figures.failed, "run");
            writeln!(out, "failed under the plan: {failed}, the last: {}", printable(reason))?;
        }
        Ok(out.flush()?)
    }

    /// Why there is no interval.
    fn lack(&self) -> &'static str {
        if self.pairs < 2 {
            "an interval needs two pairs"
        } else {
            "interval not known: it is wider than ten times the ratio to either side; raise --rounds"
        }
    }
}

impl Figures {
    fn of(trials: &[&Trial]) -> Self {
        let values: Vec<f64> = trials.iter().filter_map(|trial| trial.value()).collect();
        Self {
            median: (!values.is_empty()).then(|| median(&values)),
            failed: trials.len() - values.len(),
            values,
            peak_rss_bytes: trials.iter().filter_map(|trial| trial.peak_rss_bytes).max(),
        }
    }
}
