//! Arguments of `top`.

use std::time::Duration;

use numapilot_cli_kit::units;

use crate::period::AsPerf;
use crate::verbs::selection::Selection;

/// Arguments of `top`.
#[derive(clap::Args)]
#[command(after_help = "\
Without -p, --cgroup and --unit, the whole machine is shown. The processes of a control group or unit \
are those at the start, and their descendants.")]
pub struct Args {
    #[command(flatten)]
    pub selection: Selection,
    /// Time between two updates.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "1s",
          value_parser = units::duration)]
    pub interval: Duration,
    #[command(flatten)]
    pub as_perf: AsPerf,
    /// Print N intervals as text and exit.
    #[arg(short = 'n', long, value_name = "N", value_parser = units::whole::<u64>(1..))]
    pub intervals: Option<u64>,
    /// Print one interval as text and exit.
    #[arg(long, conflicts_with = "intervals")]
    pub once: bool,
}
