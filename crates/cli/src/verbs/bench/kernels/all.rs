//! `bench kernels`: all kernels under their illness and all cures, in one table.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use numapilot_workloads::kernels::{self, Kernel, Options, Outcome, Place};
use serde_json::Value;

use super::under::{self, Under};
use super::{Common, lab, picture, table};
use crate::file::{self, Existing};
use crate::interruption;
use crate::settle::Measured;
use crate::status_line::StatusLine;
use crate::terminal::Terminal;

/// Arguments of `bench kernels`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  numapilot bench kernels --machine mine.toml
  numapilot bench kernels --lab opteron-8385 --svg kernels.svg
  numapilot bench kernels k1 k4 --lab epyc-9004-nps4 --json")]
pub struct Args {
    /// Only these: k1 to k12.
    #[arg(value_name = "KERNEL")]
    kernels: Vec<Kernel>,

    /// Run them on this emulated machine: a name of `lab list`, or a description file.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "machine")]
    lab: Option<String>,

    /// Run everything so many times, what a kernel is to run with in turn, and keep each one's
    /// median: by time, with --under by the rate in the end.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = crate::units::whole::<u32>(1..=1000))]
    pub(super) runs: u32,

    /// Run each kernel with its illness under these instead of in all its placements.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_enum, conflicts_with = "svg")]
    pub(super) under: Vec<Under>,

    /// With --under paper and default: how often balance decides, in real time.
    #[arg(long, value_name = "TIME", requires = "under", value_parser = crate::units::duration)]
    interval: Option<Duration>,

    /// Draw the results into FILE.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    common: Common,
}

/// How a series of kernels came to its end; what ran before stays.
pub(super) enum End {
    Whole,
    Interrupted,
    Failed(anyhow::Error),
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if let Some(path) = &self.svg {
            file::check(path, Existing::Replace)?;
        }
        let (outcomes, end) = match &self.lab {
            Some(machine) => lab::outcomes(machine, &self)?,
            None => self.here(terminal)?,
        };
        if let Some(path) = &self.svg {
            let rows = table::rows(&outcomes)?;
            file::put(path, &picture::draw(&rows), Existing::Replace)?;
        }
        if self.common.json {
            let measured = outcomes.iter().map(|outcome| Measured::new(terminal, outcome));
            terminal.json(&measured.collect::<Vec<_>>())?;
        } else if !self.under.is_empty() {
            under::print(terminal, &outcomes)?;
        } else {
            table::print(terminal, &table::rows(&outcomes)?)?;
        }
        match end {
            End::Whole => Ok(ExitCode::SUCCESS),
            End::Interrupted => Ok(interruption::status()),
            End::Failed(why) => Err(why),
        }
    }

    /// On this machine.
    fn here(&self, terminal: &Terminal) -> anyhow::Result<(Vec<Value>, End)> {
        let interrupted = interruption::flag()?;
        if !self.under.is_empty() {
            return Ok(under::outcomes(&self.chosen(), self, &interrupted));
        }
        let options = self.common.options(Place::FirstTouch)?;
        let mut outcomes = Vec::new();
        let line = StatusLine::new(terminal);
        for kernel in self.chosen() {
            let places: Vec<Place> = kernel.places().iter().copied().chain([Place::Best]).collect();
            let mut runs: Vec<Vec<Outcome>> = places.iter().map(|_| Vec::new()).collect();
            for round in 1..=self.runs {
                for (place, runs) in places.iter().zip(&mut runs) {
                    if interrupted.load(Relaxed) {
                        line.finish();
                        return Ok((outcomes, End::Interrupted));
                    }
                    line.show(format!("{kernel} · {place} · run {round} of {}", self.runs));
                    let options = Options { place: *place, ..options.clone() };
                    match kernels::run(kernel, &options) {
                        Ok(outcome) => runs.push(outcome),
                        Err(why) => {
                            line.finish();
                            let what = format!("{kernel} with --place {place}");
                            let why = anyhow::Error::new(why).context(what);
                            return Ok((outcomes, End::Failed(why)));
                        }
                    }
                }
            }
            for runs in runs {
                let middle = median(runs, |run| run.seconds);
                outcomes.extend(middle.map(serde_json::to_value).transpose()?);
            }
        }
        line.finish();
        Ok((outcomes, End::Whole))
    }

    /// The same call, as the guest of this machine is to make it.
    pub(super) fn words(&self, machine: &str) -> Vec<String> {
        let mut words: Vec<String> = ["bench", "kernels", "--json"].map(String::from).to_vec();
        words.extend(self.kernels.iter().map(|kernel| kernel.name().to_owned()));
        words.extend(["--machine".to_owned(), machine.to_owned()]);
        words.extend(["--runs".to_owned(), self.runs.to_string()]);
        if !self.under.is_empty() {
            let under: Vec<&str> = self.under.iter().map(|under| under.name()).collect();
            words.extend(["--under".to_owned(), under.join(",")]);
            words.extend(self.interval_words());
        }
        words.extend(self.kernel_words());
        words
    }

    /// Options of balance.
    pub(super) fn interval_words(&self) -> Vec<String> {
        let word = |interval: Duration| ["--interval".to_owned(), seconds(interval)];
        self.interval.map(word).into_iter().flatten().collect()
    }

    /// Options that every kernel takes.
    pub(super) fn kernel_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        option("--seed", self.common.seed.to_string());
        if let Some(lasts) = self.common.lasts {
            option("--for", seconds(lasts));
        }
        if let Some(threads) = self.common.threads {
            option("--threads", threads.to_string());
        }
        let scale = self.common.scale.map(super::Scale::bytes);
        if let Some(bytes) = self.common.size.or(scale) {
            option("--size", bytes.to_string());
        }
        words
    }

    fn chosen(&self) -> Vec<Kernel> {
        match self.kernels.as_slice() {
            [] => Kernel::ALL.to_vec(),
            some => some.to_vec(),
        }
    }
}

/// A duration as an option takes it.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

/// The run in the middle by a figure; of an even number the one with less of it.
pub(super) fn median<T>(mut runs: Vec<T>, figure: impl Fn(&T) -> f64) -> Option<T> {
    runs.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    let middle = runs.len().checked_sub(1)? / 2;
    Some(runs.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_in_the_middle_is_kept() {
        let of = |runs: &[f64]| median(runs.to_vec(), |run| *run);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!(of(&[]), None);
    }
}
