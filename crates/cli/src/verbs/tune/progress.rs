//! Shows progress on a terminal, and the noise as soon as it is known.

use std::collections::BTreeSet;

use numapilot_cli_kit::status_line::StatusLine;
use numapilot_cli_kit::terminal::{Terminal, left_time, plural, printable, seconds};
use numapilot_tune::decide::failures::{self, Tally};
use numapilot_tune::decide::race::Race;
use numapilot_tune::decide::{Findings, Settings, outlook};
use numapilot_tune::evidence::{Failure, Order, Outcome, Phase, Trial};
use numapilot_tune::search::Watcher;
use numapilot_tune::shape::DEFAULT;
use numapilot_tune::space::Space;
use numapilot_tune::statistics::{median, robust_sigma};

use super::text;

/// Noise from which on small differences need very many runs.
const NOISY: f64 = 0.20;
/// Runs below this time measure the start of the program more than the program.
const SHORT: f64 = 0.010;

/// Lines of a failed run's output that are shown; more are kept.
const SHOWN_LINES: usize = 5;

/// The progress line on the terminal.
pub struct Progress<'a> {
    line: StatusLine<'a>,
    space: &'a Space,
    settings: &'a Settings,
    /// Whether the metric is wall time.
    is_time: bool,
    /// Programs that runs left running; each is named once.
    left: BTreeSet<String>,
    /// Whether shared memory that a run left was named.
    has_named_memory: bool,
}

impl<'a> Progress<'a> {
    pub fn new(
        terminal: &'a Terminal,
        space: &'a Space,
        settings: &'a Settings,
        is_time: bool,
    ) -> Self {
        let line = StatusLine::new(terminal);
        Self { line, space, settings, is_time, left: BTreeSet::new(), has_named_memory: false }
    }

    pub fn finish(&self) {
        self.line.finish();
    }

    fn say_noise(&self, evidence: &[Trial]) {
        let runs = || evidence.iter().filter(|t| t.order.phase == Phase::Noise);
        let costs: Vec<f64> = runs().filter_map(|t| t.cost(self.settings.goal)).collect();
        let times: Vec<f64> = runs().map(|t| t.seconds).collect();
        let (noise, time) = (robust_sigma(&costs), median(&times));
        let values: Vec<f64> = runs()
            .filter_map(|trial| match trial.outcome {
                Outcome::Value(value) => Some(value),
                Outcome::Failed(_) | Outcome::CutShort(_) => None,
            })
            .collect();
        let middle = median(&values);
        let middle = if self.is_time { seconds(middle) } else { text::figure(middle) };
        match costs.len() {
            // One run does not show how much two differ.
            1 => self.line.say(&format!("the default: {middle}")),
            runs => self.line.say(&format!(
                "noise {:.1} % ({} of the default, median {middle})",
                100.0 * noise,
                plural(runs, "run"),
            )),
        }
        let warn = |message: &str| self.line.warn(message);
        self.say_outlook(evidence);
        if noise > NOISY {
            warn(
                "the default differs from itself by more than 20 %: stop other programs, or give \
                 the program more to do; small gains will not be found",
            );
        }
        if time < SHORT {
            warn(
                "runs take less than 10 ms: starting them is most of what is measured; give them \
                 more to do",
            );
        }
    }
}

impl Progress<'_> {
    /// Prints the outlook for the time that is left.
    fn say_outlook(&self, evidence: &[Trial]) {
        let outlook = outlook(&self.space.shape(), self.settings, evidence);
        if outlook.of < 2 {
            return;
        }
        let time = left_time(outlook.seconds);
        let more = plural(outlook.runs, "more run");
        self.line.say(&format!("at most {more}, about {time}"));
        if outlook.plans < outlook.of {
            self.line.warn(&format!(
                "in this time (--max-time) {} of {} plans can be compared, those that change \
                 least; {} never run",
                outlook.plans,
                outlook.of,
                outlook.of - outlook.plans
            ));
        }
    }

    /// Prints a failed run, its reason, and the processes that it left.
    fn say_failure(&self, evidence: &[Trial], trial: &Trial, failure: &Failure) {
        // If the search ends with this failure, the error message shows the rest.
        if trial.order.candidate != DEFAULT
            || failures::failing_default(self.settings, evidence).is_none()
        {
            self.say_failed(evidence, trial, failure);
        }
        for ended in &trial.remains.ended {
            self.line.say(&format!("  it left {} running, which was ended", printable(ended)));
        }
        for removed in &trial.remains.removed {
            self.line.say(&format!("  it left {removed}, which was removed"));
        }
    }

    fn say_failed(&self, evidence: &[Trial], trial: &Trial, failure: &Failure) {
        let plan = self.space.plan(trial.order.candidate);
        let tally = Tally::of(evidence, trial.order.candidate);
        let is_out =
            failures::failed_plans(self.settings, evidence).contains(&trial.order.candidate);
        let what = if is_out { "excluded" } else { "it continues" };
        self.line.say(&format!(
            "run {} ({}), {plan}: {failure}; {} of {} failed: {what}",
            evidence.len(),
            trial.order.phase,
            tally.failed,
            tally.runs,
        ));
        let lines: Vec<&str> = trial.remains.output.lines().collect();
        for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
            self.line.say(&format!("  | {}", line.replace(char::is_control, " ")));
        }
    }

    /// Prints the programs that a successful run left running, each once.
    fn say_left(&mut self, evidence: &[Trial], trial: &Trial) {
        for program in trial.remains.programs() {
            if self.left.insert(program.to_owned()) {
                self.line.say(&format!(
                    "run {} ({}), {}: it left {} running, which was ended, as after every run",
                    evidence.len(),
                    trial.order.phase,
                    self.space.plan(trial.order.candidate),
                    printable(program),
                ));
            }
        }
        if let Some(removed) = trial.remains.removed.first()
            && !std::mem::replace(&mut self.has_named_memory, true)
        {
            self.line.say(&format!(
                "run {} ({}), {}: it left {removed}, which was removed, as after every run",
                evidence.len(),
                trial.order.phase,
                self.space.plan(trial.order.candidate),
            ));
        }
    }
}

impl Watcher for Progress<'_> {
    fn before(&mut self, order: Order, evidence: &[Trial]) {
        if self.line.is_hidden() {
            return;
        }
        let mut parts = vec![format!("{} {}", order.phase, evidence.len() + 1)];
        if order.phase == Phase::Race {
            let race = Race::new(evidence, Phase::Race, self.settings);
            parts.push(format!("round {}", order.block + 1));
            if order.block > 0 {
                parts.push(format!("{} plans left", race.standing().len()));
            }
        }
        if !evidence.is_empty() {
            let each = evidence.iter().map(|t| t.seconds).sum::<f64>() / evidence.len() as f64;
            let left = self.settings.budget(evidence).saturating_sub(evidence.len());
            let time = left_time(each * left as f64);
            parts.push(format!("at most {}, {time}", plural(left, "run")));
        }
        // This comes last, because the terminal may cut it off.
        let findings = Findings::glance(&self.space.shape(), self.settings, evidence);
        if let Some(named) = findings.best().or(findings.expected())
            && let Some(figure) = named.figure
        {
            let ratio = self.settings.goal.ratio(figure.centre);
            let plan = self.space.plan(named.plan);
            parts.push(format!("{} {plan} {ratio:.3}", named.claim.name()));
        }
        self.line.show(parts.join(" · "));
    }

    fn after(&mut self, evidence: &[Trial]) {
        let Some(last) = evidence.last() else { return };
        if last.failure().is_none() {
            self.say_left(evidence, last);
        }
        let noise = failures::succeeded(evidence, Phase::Noise);
        match last.failure() {
            Some(failure) => self.say_failure(evidence, last, failure),
            None if last.order.phase == Phase::Noise && noise == self.settings.noise_runs => {
                self.say_noise(evidence);
            }
            None => {}
        }
    }
}
