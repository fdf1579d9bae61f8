//! Arguments of `top`.

use std::time::Duration;

use numapilot_cli_kit::units;

use crate::period::AsPerf;

/// Arguments of `top`.
#[derive(clap::Args)]
pub struct Args {
    /// Watch these processes and their descendants; by default the whole machine.
    #[arg(short, long, value_name = "PID", value_delimiter = ',',
          value_parser = units::whole::<i32>(1..))]
    pub pid: Vec<i32>,
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
