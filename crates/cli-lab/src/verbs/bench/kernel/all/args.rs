//! `bench kernel all`: arguments.

use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;
use numapilot_workloads::kernels::Kernel;

use super::under_what::Under;
use crate::verbs::bench::kernel::args::{Common, Scale};

/// The time scale with `--under`: balance decides once in 50 ms of simulated time, and
/// a tick of the scheduler takes less than 2 % of the time.
const UNDER_TIME_SCALE: u16 = 20;

/// Arguments of `bench kernel all`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  numapilot bench kernel all --machine mine.toml
  numapilot bench kernel all --lab opteron-8385 --svg kernels.svg
  numapilot bench kernel all k1 k4 --lab epyc-9004-nps4 --json")]
pub struct Args {
    /// Kernels to run, k1 to k12 [default: all].
    #[arg(value_name = "KERNEL")]
    pub kernels: Vec<Kernel>,

    /// Run on this emulated machine: a name of `lab list`, or a description file.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "machine")]
    pub lab: Option<String>,

    /// Run every combination N times, interleaved, and keep the median run: by time, or with
    /// --under by the settled rate.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = units::whole::<u32>(1..=1000))]
    pub runs: u32,

    /// Run each kernel with its pathology under these, instead of in all its placements.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_enum, conflicts_with = "svg")]
    pub under: Vec<Under>,

    /// Seconds on the emulated machine's clocks in a simulated second, as for `lab run`: with more,
    /// the kernel and balance act more often in the time of --for [default: 20 with --under, else
    /// 1].
    #[arg(long, value_name = "N", requires = "lab", value_parser = units::whole::<u16>(1..=1000))]
    time_scale: Option<u16>,

    /// With --under paper and default: the interval at which balance decides, on the clock of the
    /// machine that it runs on.
    #[arg(long, value_name = "TIME", requires = "under", value_parser = units::duration)]
    interval: Option<Duration>,

    /// Draw the results into FILE.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

impl Args {
    /// The arguments for the same run in the guest of this machine.
    pub fn words(&self, machine: &str) -> Vec<String> {
        let mut words: Vec<String> =
            ["bench", "kernel", "all", "--json"].map(String::from).to_vec();
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

    /// The option of `lab run` that sets the time scale.
    pub fn time_scale_word(&self) -> String {
        let usual = if self.under.is_empty() { 1 } else { UNDER_TIME_SCALE };
        format!("--time-scale={}", self.time_scale.unwrap_or(usual))
    }

    /// The options of balance.
    pub fn interval_words(&self) -> Vec<String> {
        let word = |interval: Duration| ["--interval".to_owned(), seconds(interval)];
        self.interval.map(word).into_iter().flatten().collect()
    }

    /// The options that every kernel accepts.
    pub fn kernel_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        option("--seed", self.common.seed.to_string());
        if let Some(lasts) = self.common.lasts {
            option("--for", seconds(lasts));
        }
        if let Some(threads) = self.common.threads {
            option("--threads", threads.to_string());
        }
        let scale = self.common.scale.map(Scale::bytes);
        if let Some(bytes) = self.common.size.or(scale) {
            option("--size", bytes.to_string());
        }
        words
    }

    /// The selected kernels.
    pub fn chosen(&self) -> Vec<Kernel> {
        match self.kernels.as_slice() {
            [] => Kernel::ALL.to_vec(),
            some => some.to_vec(),
        }
    }
}

/// A duration as an option's value.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}
