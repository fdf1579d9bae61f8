//! `numapilot tune [LIMITS] -- COMMAND`: measure plans, print what each brings, keep the
//! best as a profile.

mod files;
mod input;
mod picture;
mod print;
mod progress;
mod setup;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use numapilot_place::PlaceError;
use numapilot_sys::prctl;
use numapilot_tune::decide::{Settings, Stop, too_few_runs};
use numapilot_tune::evidence::Trial;
use numapilot_tune::report::Report;
use numapilot_tune::run::{Decimal, Limits, RunError, expression};
use numapilot_tune::search::{SearchError, search};
use numapilot_tune::space::Request;
use regex::Regex;

use crate::interruption;
use crate::settle::{self, Measured};
use crate::terminal::{Terminal, plural, seconds};
use crate::units;
use crate::verbs::processes;

/// Arguments of `tune`.
#[derive(clap::Args)]
#[command(after_help = "\
A plan is one way to run the program: an allocator, a placement of threads and memory, a setting \
of huge pages and AutoNUMA. The default is the plan that changes nothing.\n\n\
First the default runs against itself (noise). Large spaces are screened by a balanced design. \
Then plans race: rounds in random order, losers leave when their confidence interval excludes \
them. The winner and the default go on until it is clear by how much.\n\n\
Ctrl-C prints what is known so far and exits with 130 (SIGTERM: 143, SIGHUP: 129); a second one ends \
at once. Results are on disk after every run; --resume goes on.\n\n\
Examples:\n  numapilot tune -- ./query --threads 16\n  \
numapilot tune --max-time 20m --metric 'tps = ([0-9.]+)' --maximize -- ./bench.sh\n  \
numapilot tune --factor thp=inherit --limit rss=8G --check 'sum=(\\d+)' -- ./job")]
pub struct Args {
    #[command(flatten)]
    measure: MeasureArgs,

    #[command(flatten)]
    space: SpaceArgs,

    #[command(flatten)]
    effort: EffortArgs,

    #[command(flatten)]
    files: files::FileArgs,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// What is measured, and which runs count.
#[derive(clap::Args)]
pub struct MeasureArgs {
    /// Compare the number in the first group of the last match in the output, instead of wall
    /// time; ^ and $ match at the ends of each line.
    #[arg(long, value_name = "REGEX", value_parser = expression, help_heading = "Measuring")]
    metric: Option<Regex>,

    /// More is better.
    #[arg(long, requires = "metric", help_heading = "Measuring")]
    maximize: bool,

    /// What separates decimals in the metric, where a number such as 1,021 does not say.
    #[arg(long, value_name = "SIGN", requires = "metric", help_heading = "Measuring")]
    decimal: Option<DecimalSign>,

    /// Exclude a plan when the text this matches differs from the default's.
    #[arg(long, value_name = "REGEX", value_parser = expression, help_heading = "Measuring")]
    check: Option<Regex>,

    /// A run that exceeds rss=SIZE or time=DURATION counts as failed; may be repeated.
    #[arg(long, value_name = "LIMIT", value_parser = units::limit, help_heading = "Measuring")]
    limit: Vec<Limits>,

    /// End a run after this time and count it as failed [default: ten times the default's
    /// slowest run, at least 10s].
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Measuring")]
    timeout: Option<Duration>,

    /// Exclude a plan when it is shown to fail in more than this many percent of its runs, and
    /// more often than the default; 0: with its first failure.
    #[arg(long, value_name = "PERCENT", value_parser = units::tolerance, default_value = "5",
          help_heading = "Measuring")]
    failure_tolerance: f64,

    /// Measure although another run of numapilot holds a machine-wide setting, under which every
    /// run would be measured; the report and the profile say so.
    #[arg(long, help_heading = "Measuring")]
    allow_held_settings: bool,

    /// Run this in a shell before every run; its time does not count.
    #[arg(long, value_name = "SHELL", help_heading = "Measuring")]
    prepare: Option<String>,

    /// The program's standard input, from its beginning in every run [default: what is
    /// redirected into numapilot, else empty].
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    stdin: Option<PathBuf>,
}

/// `--decimal`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum DecimalSign {
    /// 1.5; a comma separates thousands.
    Point,
    /// 1,5; a point separates thousands.
    Comma,
}

impl From<DecimalSign> for Decimal {
    fn from(sign: DecimalSign) -> Self {
        match sign {
            DecimalSign::Point => Self::Point,
            DecimalSign::Comma => Self::Comma,
        }
    }
}

/// What is compared.
#[derive(clap::Args)]
pub struct SpaceArgs {
    /// Levels of a factor instead of those found: allocator=glibc,jemalloc, threads=sparse,
    /// memory=interleave,bind:0-1, thp=inherit, numa-balancing=off; may be repeated.
    #[arg(long = "factor", value_name = "NAME=LEVELS", help_heading = "Plans")]
    factors: Vec<Request>,

    /// Also compare what can be had for the whole machine only, for the time of each run that
    /// needs it: the switch of transparent huge pages, AutoNUMA.
    #[arg(long, help_heading = "Plans")]
    allow_machine_wide: bool,

    /// Race this profile too; may be repeated.
    #[arg(long = "plan", value_name = "FILE", help_heading = "Plans")]
    plans: Vec<PathBuf>,
}

/// How long, how sure.
#[derive(clap::Args)]
pub struct EffortArgs {
    /// Stop after this time of running.
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Effort")]
    max_time: Option<Duration>,

    /// Stop after this many runs [default: by the size of the space, 80 to 750].
    #[arg(long, value_name = "RUNS", help_heading = "Effort")]
    max_runs: Option<usize>,

    /// Differences below this many percent do not matter.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "2",
          help_heading = "Effort")]
    resolution: f64,

    /// Confidence of all intervals together, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "95",
          help_heading = "Effort")]
    confidence: f64,

    /// Once the winner is known, go on with it and the default, within --max-runs and --max-time,
    /// until its interval reaches at most this many percent of the ratio to either side.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "5",
          help_heading = "Effort")]
    precision: f64,

    /// Runs before the first that counts.
    #[arg(long, value_name = "RUNS", default_value_t = 1, help_heading = "Effort")]
    warmup: usize,

    /// Runs of the default against itself.
    #[arg(long, value_name = "RUNS", default_value_t = 5, help_heading = "Effort",
          value_parser = crate::units::whole::<u16>(3..=1000))]
    noise_runs: u16,

    /// Source of all random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = "Effort")]
    seed: u64,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        processes::require()?;
        let outputs = self.files.check()?;
        if !self.measure.allow_held_settings
            && let Some(holder) = settle::holders().first()
        {
            bail!(
                "{holder}: every run would be measured under that; wait for its end, or give \
                 --allow-held-settings, which has the report and the profile say so"
            );
        }
        let held = settle::held_settings(terminal);
        let setup = match setup::Setup::new(terminal, &self) {
            Ok(setup) => setup,
            Err(error) => return launch_error(terminal, &self.command, error),
        };
        let interrupted = interruption::flag()?;
        // Refused by a filter: of what becomes a daemon only what has kept its environment is ended.
        let _ = prctl::adopt_orphans();
        let mut runner = setup.runner(&interrupted);
        let directory = self.files.state(&self.command)?;
        let (mut journal, past) = numapilot_tune::journal::Journal::open(
            &directory,
            &setup.fingerprint(&self, &held),
            self.files.resume,
        )?;
        runner.restore_answer(past.answer);
        runner.restore_written(past.written);
        let mut evidence = past.trials;
        print::start(terminal, &setup, journal.path(), evidence.len());
        // Put back by its end, and after a death like every entry of the settings' journal.
        let _reserved = setup.reserve(&self.command)?;
        let mut progress =
            progress::Progress::new(terminal, &setup.space, &setup.settings, setup.is_time());
        let result = search(
            &setup.space,
            &setup.settings,
            &mut runner,
            &mut journal,
            &mut evidence,
            &mut progress,
        );
        progress.finish();
        let stop = match result {
            Ok(stop) => stop,
            Err(SearchError::Run(error)) if evidence.is_empty() => {
                return launch_error(terminal, &self.command, error.into());
            }
            Err(error) => {
                return Err(anyhow::Error::from(error).context(format!(
                    "stopped after {}, kept in {} (--resume goes on)",
                    plural(evidence.len(), "run"),
                    journal.path().display()
                )));
            }
        };
        if stop == Stop::TooLittleTime {
            return Err(too_little_time(&setup.settings, &evidence, journal.path()));
        }
        let report =
            Report::new(&setup.space, &setup.settings, &evidence, stop, setup.metric_name());
        // Also what has come since.
        let held = settle::held_settings(terminal);
        let written = outputs.write(terminal, &report, &self.command, &held)?;
        if self.json {
            terminal.json(&Measured::new(terminal, &report))?;
            written.lines().iter().for_each(|line| terminal.say(line));
        } else {
            print::report(terminal, &report, &written, &held)?;
        }
        if stop == Stop::Interrupted {
            return Ok(interruption::status());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A program that is not there, or that cannot be executed, has its own status.
fn launch_error(
    terminal: &Terminal,
    command: &[OsString],
    error: anyhow::Error,
) -> anyhow::Result<ExitCode> {
    let start = match error.downcast_ref::<RunError>() {
        Some(RunError::Start(start)) => Some(start),
        _ => error.downcast_ref::<PlaceError>(),
    };
    match start.map(PlaceError::exit_status) {
        Some(status) if status != 125 => {
            terminal.error(&match shell_line(command) {
                Some(line) => error.context(format!(
                    "'{line}' is not the name of one program; have a shell run it: numapilot tune \
                     -- sh -c '{line}'"
                )),
                None => error,
            });
            Ok(ExitCode::from(status))
        }
        _ => Err(error),
    }
}

/// The command, when it is a line for a shell given as one word.
fn shell_line(command: &[OsString]) -> Option<&str> {
    let [line] = command else { return None };
    line.to_str().filter(|line| line.contains([' ', '|', '&', ';', '<', '>', '$']))
}

/// What `--max-time` would have to be for one plan to be compared with the default.
fn too_little_time(settings: &Settings, evidence: &[Trial], journal: &Path) -> anyhow::Error {
    let least = too_few_runs(settings, evidence).unwrap_or_default();
    let each = evidence.iter().map(|t| t.seconds).sum::<f64>() / evidence.len().max(1) as f64;
    let limit = settings.max_seconds.unwrap_or_default();
    let enough = (1.2 * each * least as f64).ceil();
    let journal = journal.display();
    let last = evidence.last().and_then(Trial::failure);
    if let Some(failure) = last.filter(|_| evidence.iter().all(|t| t.failure().is_some())) {
        return anyhow::anyhow!(
            "--max-time {limit}s is over and no run has succeeded; the last of {} failed: {failure}",
            plural(evidence.len(), "run")
        );
    }
    if each >= limit {
        return anyhow::anyhow!(
            "--max-time {limit}s is shorter than one run of the program ({}); comparing one plan \
             with the default takes {least} runs; give --max-time {enough:.0}s or more, with \
             --resume to keep what is in {journal}",
            seconds(each)
        );
    }
    anyhow::anyhow!(
        "--max-time is too short: a run takes {}, and comparing one plan with the default takes {} \
         runs at least; give --max-time {enough:.0}s or more, with --resume to keep what is in \
         {journal}",
        seconds(each),
        least,
    )
}
