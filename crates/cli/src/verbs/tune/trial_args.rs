//! Arguments of `tune trial`.

use std::ffi::OsString;
use std::path::PathBuf;

use numapilot_cli_kit::units;

use super::measure_args::{MeasureArgs, ServerArgs};

/// Arguments of `tune trial`.
#[derive(clap::Args)]
#[command(after_help = "\
The status is 0 if the plan has a figure, 1 if it has none (its runs failed; `reason` says why), and \
125 if nothing could be measured.\n\n\
Example:\n  numapilot tune trial --plan candidate.toml --rounds 5 --json -- java -jar app.jar")]
pub struct TrialArgs {
    /// The plan, as a profile; variables in its [env] carry what is no setting of a plan.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,

    /// Pairs of runs: one under the plan, one without.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = units::whole::<u32>(1..=10_000))]
    pub rounds: u32,

    /// Runs without the plan before the first pair.
    #[arg(long, value_name = "RUNS", default_value_t = 1,
          value_parser = units::whole::<u32>(0..=1000))]
    pub warmup: u32,

    /// Confidence of the interval, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "95")]
    pub confidence: f64,

    #[command(flatten)]
    pub measure: Box<MeasureArgs>,

    #[command(flatten)]
    pub server: ServerArgs,

    /// Let the plan change settings of the whole machine, for the time of each run.
    #[arg(long)]
    pub allow_machine_wide: bool,

    /// Write every run to this Parquet file.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,

    /// Overwrite the file of --parquet.
    #[arg(short, long, requires = "parquet")]
    pub force: bool,

    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,

    /// The program and its arguments, unless --server is given.
    #[arg(value_name = "COMMAND", required_unless_present = "server", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}
