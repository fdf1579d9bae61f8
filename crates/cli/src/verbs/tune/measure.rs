//! Turns the arguments of measuring into what is run and how it is judged.

use std::ffi::OsString;

use anyhow::Context;
use numapilot_place::via::Via;
use numapilot_tune::evidence::Goal;
use numapilot_tune::run::{Decimal, Judge, Limits, Matches, Metric, Program, Service};

use super::input::Input;
use super::measure_args::MeasureArgs;

impl MeasureArgs {
    /// The program, with what runs beside it.
    pub fn program(
        &self,
        command: &[OsString],
        input: &Input,
        via: Option<Via>,
        service: Option<Service>,
    ) -> Program {
        Program {
            command: command.to_vec(),
            stdin: input.path.clone(),
            prepare: self.prepare.clone(),
            via,
            cleanup: self.cleanup.clone(),
            service,
            timeout: self.timeout,
            progress: self.progress.clone(),
        }
    }

    /// The metric, and what judges runs by it.
    pub fn judge(&self, is_server: bool) -> anyhow::Result<(Metric, Judge)> {
        if let Some(regex) = &self.progress {
            Metric::matched(regex.clone(), None).context("--progress")?;
        }
        let decimal = self.decimal.map(Decimal::from);
        let metric = match self.metric.clone() {
            None => Metric::WallTime,
            Some(regex) => Metric::matched(regex, decimal).context("--metric")?,
        };
        // Progress lines of a load are many figures, of which none is the result.
        let matches = if is_server { Matches::Steady } else { Matches::Last };
        let judge = Judge::new(metric.clone(), self.check.clone(), limits(&self.limit));
        Ok((metric, judge.counting(matches)))
    }

    /// Which direction of the metric is better.
    pub fn goal(&self) -> Goal {
        if self.maximize { Goal::Maximize } else { Goal::Minimize }
    }
}

/// The strictest of the limits that were given.
pub fn limits(given: &[Limits]) -> Limits {
    Limits {
        rss_bytes: given.iter().filter_map(|l| l.rss_bytes).min(),
        seconds: given.iter().filter_map(|l| l.seconds).reduce(f64::min),
    }
}
