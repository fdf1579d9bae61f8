//! One run as one flat row.

use numapilot_topology::{Machine, StableHash};
use numapilot_tune::evidence::{Goal, Outcome, Trial};

/// The phase of a trial of a study, which has no default plan.
pub const STUDY: &str = "study";

/// The outcome of a run that counts.
pub const OK: &str = "ok";

/// Where and how a set of runs was made; the same in each of its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The name of the host.
    pub host: String,
    /// The hash of the host's topology; absent if the machine was emulated.
    pub topology: Option<String>,
    /// The emulated machine, if it was one.
    pub emulated: Option<String>,
    /// The model of the processor.
    pub processor: Option<String>,
    /// The release of the kernel.
    pub kernel: Option<String>,
    /// The version of numapilot.
    pub version: String,
    /// The hash of the command.
    pub command: String,
    /// The metric: `wall time`, or the pattern.
    pub metric: String,
    /// Which direction of the metric is better.
    pub goal: Goal,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The set of runs that are compared with each other: those of one search.
    pub run: String,
    /// When it began, in milliseconds since 1970 (UTC).
    pub time_ms: Option<i64>,
    /// Where and how.
    pub source: Source,
    /// The plan in one line; `default` changes nothing.
    pub plan: String,
    /// The purpose of the run.
    pub phase: String,
    /// Number of the round within the phase, from 0; runs of a round are compared with each other.
    pub round: i64,
    /// The metric's value, above 0; absent if the run failed.
    pub value: Option<f64>,
    /// Wall time of the run, whatever the metric.
    pub seconds: f64,
    /// Peak resident memory.
    pub peak_rss_bytes: Option<i64>,
    /// `ok`, or why the run does not count.
    pub outcome: String,
}

impl Source {
    /// This host, which was read from `/`, with this release of its kernel. Command, metric and goal
    /// are left to the caller.
    #[must_use]
    pub fn here(machine: &Machine, kernel: String) -> Self {
        Self {
            host: machine.name.clone(),
            topology: Some(machine.topology_hash().to_string()),
            processor: machine.processor.clone(),
            kernel: Some(kernel),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Self::default()
        }
    }

    /// The same on an emulated machine, whose simulated figures do not depend on this host.
    #[must_use]
    pub fn emulated(self, machine: &str) -> Self {
        let emulated = Some(machine.to_owned());
        Self { emulated, topology: None, processor: None, kernel: None, ..self }
    }

    /// The rows of a search. `plan` names each candidate of it.
    #[must_use]
    pub fn rows(&self, trials: &[Trial], plan: impl Fn(&Trial) -> String) -> Vec<Row> {
        let run = self.run(trials);
        let row = |trial: &Trial| Row {
            run: run.clone(),
            time_ms: trial.began_ms.and_then(|ms| i64::try_from(ms).ok()),
            source: self.clone(),
            plan: plan(trial),
            phase: trial.order.phase.to_string(),
            round: trial.order.block.into(),
            value: trial.value(),
            seconds: trial.seconds,
            peak_rss_bytes: trial.peak_rss_bytes.and_then(|bytes| i64::try_from(bytes).ok()),
            outcome: outcome(trial),
        };
        trials.iter().map(row).collect()
    }

    /// A name for a set of runs, which stays when the set grows.
    fn run(&self, trials: &[Trial]) -> String {
        let began = trials.first().and_then(|trial| trial.began_ms).unwrap_or_default();
        let text = [&self.host, &self.command, &self.metric, &began.to_string()];
        StableHash::of(text.map(String::as_bytes)).to_string()
    }
}

/// Whether the run counts, or why not.
fn outcome(trial: &Trial) -> String {
    match &trial.outcome {
        Outcome::Value(_) => OK.to_owned(),
        Outcome::Failed(failure) => failure.to_string(),
        Outcome::CutShort(bound) => format!("cut short: at least {bound}"),
    }
}

#[cfg(test)]
mod tests {
    use numapilot_tune::evidence::{Failure, Order, Phase};
    use numapilot_tune::shape::Candidate;

    use super::*;

    #[test]
    fn a_trial_becomes_a_row() {
        let order = Order { phase: Phase::Race, block: 3, candidate: Candidate(1) };
        let good = Trial {
            began_ms: Some(1_000),
            peak_rss_bytes: Some(7),
            ..Trial::new(order, 2.0, Outcome::Value(5.0))
        };
        let bad = Trial::new(order, 1.0, Outcome::Failed(Failure::Exit(3)));
        let cut = Trial::new(order, 1.0, Outcome::CutShort(2.5));
        let source = Source { host: "h".to_owned(), ..Source::default() };
        let rows =
            source.rows(&[good.clone(), bad, cut], |trial| trial.order.candidate.0.to_string());
        assert_eq!(
            (rows[0].plan.as_str(), rows[0].phase.as_str(), rows[0].round),
            ("1", "race", 3)
        );
        assert_eq!((rows[0].value, rows[0].outcome.as_str()), (Some(5.0), OK));
        assert_eq!((rows[0].time_ms, rows[0].peak_rss_bytes), (Some(1_000), Some(7)));
        assert_eq!((rows[1].value, rows[1].outcome.as_str()), (None, "exit status 3"));
        assert_eq!((rows[2].value, rows[2].outcome.as_str()), (None, "cut short: at least 2.5"));
        assert_eq!(rows[0].run, rows[1].run);
        // A search that continues keeps its name; another one has its own.
        assert_eq!(source.run(std::slice::from_ref(&good)), rows[0].run);
        let later = Trial { began_ms: Some(2_000), ..good };
        assert_ne!(source.run(&[later]), rows[0].run);
    }
}
