//! Arguments of `stat`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;
use numapilot_place::via::Template;

use super::events;
use crate::verbs::selection::Selection;

/// Arguments of `stat`.
#[derive(clap::Args)]
#[command(
    override_usage = "\
numapilot stat [OPTIONS] COMMAND...
       numapilot stat [OPTIONS] -p PID[,PID] [COMMAND]...
       numapilot stat [OPTIONS] --cgroup PATH [COMMAND]...
       numapilot stat [OPTIONS] --unit NAME [COMMAND]...
       numapilot stat [OPTIONS] -a [COMMAND]...",
    after_help = "\
Running processes are observed until they end, Ctrl-C, --timeout, or until the command ends. Those of \
a control group or unit are those at the start, and their descendants."
)]
pub struct Args {
    /// Repeat the run N times; figures become means, with the standard deviation of the runs.
    #[arg(short = 'r', long = "repeat", value_name = "N", default_value_t = 1,
          value_parser = units::whole::<u32>(1..=10_000), conflicts_with_all = ["Selection", "all_cpus"])]
    pub repeat: u32,
    /// Also print the figures every MS milliseconds.
    #[arg(short = 'I', long = "interval-print", value_name = "MS",
          value_parser = units::whole::<u64>(10..))]
    pub interval: Option<u64>,
    /// Write the figures to FILE.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write JSON: one object, or one line for every interval.
    #[arg(long)]
    pub json: bool,
    /// Print these figures only, in this order: names of the table, or perf's (cycles,
    /// instructions, task-clock, page-faults, ...).
    #[arg(short = 'e', long = "event", value_name = "LIST", value_delimiter = ',',
          value_parser = events::parse, conflicts_with = "json")]
    pub event: Vec<events::Event>,
    /// Print a line for each figure, with SEP between its fields: value, unit, name.
    #[arg(short = 'x', long, value_name = "SEP", conflicts_with = "json",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub field_separator: Option<String>,
    #[command(flatten)]
    pub selection: Selection,
    /// Observe the whole machine, until Ctrl-C, --timeout, or until the command ends.
    #[arg(short = 'a', long, conflicts_with = "Selection")]
    pub all_cpus: bool,
    /// Stop after this time, such as 90, 90s or 2m; a program that was started here is ended too.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub timeout: Option<Duration>,
    /// Run the command under the plan of a profile (see run, tune).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["Selection", "all_cpus"])]
    pub profile: Option<PathBuf>,
    /// Start the command by another launcher: {} in the template becomes `numapilot run` with the
    /// plan of the profile and the command, or a name as for run. The figures are those of the launcher's processes here.
    #[arg(long, value_name = "TEMPLATE", conflicts_with_all = ["Selection", "all_cpus"])]
    pub via: Option<Template>,
    /// With --via: how many far ends must attest what took effect [default: as many tasks as the
    /// launcher tells them (Slurm, MPI, Flux), or one for ssh and for a container].
    #[arg(long, value_name = "N", requires = "via",
          value_parser = units::whole::<u32>(1..))]
    pub via_count: Option<u32>,
    /// With --via: directory for what the far ends attest, each run in a new one there, which must be
    /// shared with them [default: the working directory, where the new one is removed at the end].
    #[arg(long, value_name = "DIR", requires = "via")]
    pub attest: Option<PathBuf>,
    /// The program and its arguments; with -p, --cgroup, --unit or -a, how long to observe (`sleep 5`).
    #[arg(value_name = "COMMAND", trailing_var_arg = true,
          required_unless_present_any = ["Selection", "all_cpus"])]
    pub command: Vec<OsString>,
}
