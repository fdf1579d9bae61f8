//! Arguments of `cores`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;

use super::decision::Decision;
use super::simulate;
use crate::verbs::selection::Selection;

/// Arguments of `cores`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "\
numapilot cores [OPTIONS] COMMAND...
       numapilot cores [OPTIONS] -p PID[,PID]
       numapilot cores [OPTIONS] --cgroup PATH | --unit NAME
       numapilot cores simulate [OPTIONS]",
    after_help = "\
Running processes are controlled, each with its descendants, until they end or Ctrl-C. Of a control \
group or unit, these are the processes at the start that no other one of them has started.\n\n\
Examples:\n  numapilot cores ./server --port 80\n  \
numapilot cores -p $(pidof server) --placement sparse\n  \
numapilot cores -p 4711,4712 --weight 3,1\n  \
numapilot cores --unit postgresql\n  \
numapilot cores simulate --load burst --svg burst.svg"
)]
pub struct Args {
    #[command(subcommand)]
    pub action: Option<Action>,

    #[command(flatten)]
    pub selection: Selection,

    /// With -p: weight of each process when cores are scarce.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "pid",
          conflicts_with_all = ["cgroup", "unit"],
          value_parser = units::whole::<u32>(1..=10_000))]
    pub weight: Vec<u32>,

    #[command(flatten)]
    pub decision: Decision,

    /// How often to decide.
    #[arg(id = "interval", long = "tick", value_name = "TIME", default_value = "100ms",
          value_parser = units::duration)]
    pub tick: Duration,

    #[command(flatten)]
    pub as_perf: crate::period::AsPerf,

    /// How long a COMMAND keeps all cores: it counts them when it creates its threads.
    #[arg(long, value_name = "TIME", default_value = "5s", conflicts_with = "Selection",
          value_parser = units::span)]
    pub startup: Duration,

    /// Print decisions without carrying them out.
    #[arg(long)]
    pub dry_run: bool,

    /// Write a line of JSON for every process and tick to standard output.
    #[arg(long)]
    pub json: bool,

    /// Print the Petri net with its marking and its last transitions; with a target, at the end.
    #[arg(long)]
    pub explain: bool,

    /// Print the Petri net as a graph for dot(1).
    #[arg(long)]
    pub dot: bool,

    /// Draw load and cores to FILE at the end.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Print how a target is held, and every change.
    #[arg(short, long)]
    pub verbose: bool,

    /// The program and its arguments.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required_unless_present_any = ["Selection", "explain", "dot"],
        conflicts_with = "Selection"
    )]
    pub command: Vec<OsString>,
}

#[derive(clap::Subcommand)]
pub enum Action {
    /// Show how the modes would respond to a load.
    Simulate(simulate::Args),
}
