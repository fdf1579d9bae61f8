//! Arguments of `balance`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;

use super::decision::Decision;
use super::replay;
use crate::verbs::selection::Selection;

/// The verb's name, as other runs see it.
pub const VERB: &str = "balance";

/// Arguments of `balance`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "\
numapilot balance [OPTIONS] COMMAND...
       numapilot balance [OPTIONS] -p PID[,PID]
       numapilot balance [OPTIONS] --cgroup PATH | --unit NAME
       numapilot balance replay [OPTIONS] FILE",
    after_help = "\
Needs page-access samples from the processor (IBS, PEBS, SPE), or AutoNUMA, and more than one node; \
`numapilot doctor` shows what there is. Otherwise the command runs unchanged. \
Running processes are balanced until they end or Ctrl-C; those of a control group or unit are those at \
the start, and their descendants.\n\n\
Examples:\n  numapilot balance ./server --port 80\n  \
numapilot balance -p $(pidof server) --dry-run\n  \
numapilot balance --unit postgresql\n  \
numapilot balance --record trace ./server; numapilot balance replay trace"
)]
pub struct Args {
    #[command(subcommand)]
    pub action: Option<Action>,

    #[command(flatten)]
    pub selection: Selection,

    #[command(flatten)]
    pub decision: Decision,

    /// Print the orders without carrying them out.
    #[arg(long)]
    pub dry_run: bool,

    /// Write a line of JSON for every process and interval to standard output.
    #[arg(long)]
    pub json: bool,

    /// Write the output to FILE instead of standard output, which the program uses too.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// How often to decide.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    pub interval: Duration,

    #[command(flatten)]
    pub as_perf: crate::period::AsPerf,

    /// Record samples, orders and results in FILE, for `balance replay`.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Print the source of the samples, and the result of every interval.
    #[arg(short, long)]
    pub verbose: bool,

    /// The program and its arguments.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required_unless_present = "Selection",
        conflicts_with = "Selection"
    )]
    pub command: Vec<OsString>,
}

#[derive(clap::Subcommand)]
pub enum Action {
    /// Replay a recording, and fail if the orders differ.
    Replay(replay::Args),
}
