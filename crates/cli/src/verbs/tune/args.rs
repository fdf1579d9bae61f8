//! Arguments of `tune`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;
use numapilot_tune::space::Request;

use super::measure_args::{MeasureArgs, ServerArgs};
use super::prior_args::PriorArgs;
use super::serve_args::ServeArgs;
use super::trial_args::TrialArgs;

/// Arguments of `tune`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "\
numapilot tune [OPTIONS] COMMAND...
       numapilot tune [OPTIONS] --server COMMAND --ready SHELL --load SHELL
       numapilot tune trial --plan FILE [OPTIONS] COMMAND...",
    after_help = "\
A plan is one way to run the program: an allocator, a placement of threads and memory, a setting \
of huge pages and AutoNUMA. The default is the plan that changes nothing.\n\n\
First the default runs against itself (noise). If there are many plans, a few runs of each level \
estimate the effect of every setting (screening). Then the most promising plans race: they run in \
rounds, in random order, and a plan leaves when its confidence interval shows that another is \
better. The winner and the default continue until the gain is known precisely.\n\n\
Ctrl-C prints what is known so far and exits with 130 (SIGTERM: 143, SIGHUP: 129); a second one ends \
at once. Results are on disk after every run; --resume continues the search.\n\n\
Examples:\n  numapilot tune -- ./query --threads 16\n  \
numapilot tune --max-time 20m --metric 'tps = ([0-9.]+)' --maximize -- ./bench.sh\n  \
numapilot tune --factor thp=inherit --limit rss=8G --check 'sum=(\\d+)' -- ./job\n  \
numapilot tune --lab machine-a -- ./query --threads 16"
)]
pub struct Args {
    #[command(subcommand)]
    pub action: Option<Action>,

    // In a box, because the arguments of all verbs share one enumeration.
    #[command(flatten)]
    pub measure: Box<MeasureArgs>,

    #[command(flatten)]
    pub server: ServerArgs,

    #[command(flatten)]
    pub space: SpaceArgs,

    #[command(flatten)]
    pub effort: EffortArgs,

    #[command(flatten)]
    pub prior: PriorArgs,

    #[command(flatten)]
    pub files: FileArgs,

    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,

    /// The program and its arguments, unless --server is given.
    #[arg(value_name = "COMMAND", required_unless_present = "server", trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// What is done instead of a search.
#[derive(clap::Subcommand)]
pub enum Action {
    /// Measure one plan against the default, in pairs of runs: a step of an outside optimiser.
    #[command(
        mut_arg("lab", |arg| arg.hide(true)),
        mut_arg("time_scale", |arg| arg.hide(true)),
        mut_arg("include", |arg| arg.hide(true))
    )]
    Trial(Box<TrialArgs>),

    /// Run a server once under a plan, with its load: what a search with --lab does in the guest.
    #[command(name = "__serve", hide = true)]
    Serve(Box<ServeArgs>),
}

impl Args {
    /// The command that runs under the plans: the program, or the server.
    pub fn command(&self) -> &[OsString] {
        self.server.server.as_ref().map_or(&self.command, |server| &server.words)
    }

    /// The directory of the results of this search.
    pub fn state(&self) -> anyhow::Result<PathBuf> {
        let load = self.server.load.as_deref().unwrap_or_default();
        self.files.state(self.command(), load, self.measure.lab.as_deref())
    }
}

/// Options that choose the plans.
#[derive(clap::Args)]
pub struct SpaceArgs {
    /// Levels of a factor, instead of those found: allocator=glibc,jemalloc, threads=sparse,
    /// memory=interleave,bind:0-1, thp=inherit, numa-balancing=off; may be repeated.
    #[arg(long = "factor", value_name = "NAME=LEVELS", help_heading = "Plans")]
    pub factors: Vec<Request>,

    /// Also compare settings that apply to the whole machine (the switch of transparent huge pages,
    /// AutoNUMA), for the duration of each run that needs them.
    #[arg(long, help_heading = "Plans")]
    pub allow_machine_wide: bool,

    /// Race this profile too; may be repeated.
    #[arg(long = "plan", value_name = "FILE", help_heading = "Plans")]
    pub plans: Vec<PathBuf>,

    /// Compare the profiles of --plan and the default alone.
    #[arg(long, requires = "plans", conflicts_with = "factors", help_heading = "Plans")]
    pub only_plans: bool,
}

/// Options of effort.
#[derive(clap::Args)]
pub struct EffortArgs {
    /// Stop after this time of running.
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Effort")]
    pub max_time: Option<Duration>,

    /// Stop after this many runs [default: by the number of plans, 80 to 750; with --lab 40 to
    /// 250].
    #[arg(long, value_name = "RUNS", help_heading = "Effort")]
    pub max_runs: Option<usize>,

    /// Differences below this many percent do not matter.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "2",
          help_heading = "Effort")]
    pub resolution: f64,

    /// Confidence that all intervals hold together (family-wise), in percent.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "95",
          help_heading = "Effort")]
    pub confidence: f64,

    /// Once the winner is known, continue with it and the default, within --max-runs and
    /// --max-time, until its interval extends at most this many percent of the ratio to either
    /// side.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "5",
          help_heading = "Effort")]
    pub precision: f64,

    /// Runs before the first one that counts [default: 1; with --lab, where each run begins
    /// afresh, 0].
    #[arg(long, value_name = "RUNS", help_heading = "Effort")]
    pub warmup: Option<usize>,

    /// Runs of the default against itself [default: 5; with --lab 3].
    #[arg(long, value_name = "RUNS", help_heading = "Effort",
          value_parser = units::whole::<u16>(3..=1000))]
    pub noise_runs: Option<u16>,

    /// Seed of all random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = "Effort")]
    pub seed: u64,
}

/// The default name of the profile.
const PROFILE: &str = "numapilot.toml";

/// Options of result files.
#[derive(clap::Args)]
pub struct FileArgs {
    /// Write the winner to this profile, for run --profile.
    #[arg(short, long, value_name = "FILE", default_value = PROFILE, help_heading = "Files")]
    pub output: PathBuf,

    /// Draw the plans with their intervals.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub svg: Option<PathBuf>,

    /// Write the plans that ran to this file of comma-separated values.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub csv: Option<PathBuf>,

    /// Write the plans that ran to this file, as a table of Markdown.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub markdown: Option<PathBuf>,

    /// Write every run to this Parquet file: a row with host, plan, round and figures (see fleet).
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub parquet: Option<PathBuf>,

    /// Overwrite the files; --resume does this too.
    #[arg(short, long, help_heading = "Files")]
    pub force: bool,

    /// Keep results in this directory [default: one for each command and working directory,
    /// under $XDG_STATE_HOME/numapilot or ~/.local/state/numapilot].
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub state: Option<PathBuf>,

    /// Continue an earlier search of the same command, and overwrite its files.
    #[arg(long, help_heading = "Files")]
    pub resume: bool,
}
