//! What is going on, on a terminal; the noise as soon as it is known.

use numapilot_tune::decide::race::Race;
use numapilot_tune::decide::{Settings, verdict};
use numapilot_tune::evidence::{Order, Phase, Trial};
use numapilot_tune::search::Watcher;
use numapilot_tune::shape::DEFAULT;
use numapilot_tune::space::Space;
use numapilot_tune::statistics::{deviation, median};

use crate::status_line::StatusLine;
use crate::terminal::{Terminal, left_time, seconds};

/// Noise from which on small differences take very many runs.
const NOISY: f64 = 0.20;
/// Runs below this time measure the start of the program more than the program.
const SHORT: f64 = 0.010;

/// The line on the terminal.
pub struct Progress<'a> {
    line: StatusLine<'a>,
    space: &'a Space,
    settings: &'a Settings,
}

impl<'a> Progress<'a> {
    pub fn new(terminal: &'a Terminal, space: &'a Space, settings: &'a Settings) -> Self {
        Self { line: StatusLine::new(terminal), space, settings }
    }

    pub fn finish(&self) {
        self.line.finish();
    }

    fn say_noise(&self, evidence: &[Trial]) {
        let runs = || evidence.iter().filter(|t| t.order.phase == Phase::Noise);
        let costs: Vec<f64> = runs().filter_map(|t| t.cost(self.settings.goal)).collect();
        let times: Vec<f64> = runs().map(|t| t.seconds).collect();
        let (noise, time) = (deviation(&costs), median(&times));
        self.line.say(&format!(
            "noise {:.1} % ({} runs of the default, median {})",
            100.0 * noise,
            costs.len(),
            seconds(time)
        ));
        let warn = |message: &str| self.line.warn(message);
        if noise > NOISY {
            warn(
                "the default differs from itself by more than 20 %: stop other programs, or give \
                 the program more to do; small gains will not be found",
            );
        }
        if time < SHORT {
            warn(
                "runs take less than 10 ms: starting the program is most of what is measured; \
                 give it more to do",
            );
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
            parts.push(format!("at most {left} runs, {}", left_time(each * left as f64)));
        }
        // Last, since the terminal may cut it off.
        let best = verdict(&self.space.shape(), self.settings, evidence);
        if best.leader != DEFAULT {
            let ratio = self.settings.goal.ratio(best.difference.centre);
            parts.push(format!("best {} {ratio:.3}", self.space.plan(best.leader)));
        }
        self.line.show(parts.join(" · "));
    }

    fn after(&mut self, evidence: &[Trial]) {
        let noise = evidence.iter().filter(|t| t.order.phase == Phase::Noise).count();
        let is_noise = evidence.last().is_some_and(|t| t.order.phase == Phase::Noise);
        if is_noise && noise == self.settings.noise_runs {
            self.say_noise(evidence);
        }
        if let Some(failure) = evidence.last().and_then(Trial::failure) {
            let plan = evidence.last().map(|t| self.space.plan(t.order.candidate));
            self.line.say(&format!("left out: {}: {failure}", plan.unwrap_or_default()));
        }
    }
}
