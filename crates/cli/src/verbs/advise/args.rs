//! Arguments of `advise`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;

/// Arguments of `advise`.
#[derive(clap::Args)]
#[command(override_usage = "\
numapilot advise [OPTIONS] COMMAND...
       numapilot advise [OPTIONS] -p PID")]
pub struct Args {
    /// Observe a running process and its descendants, until it ends, Ctrl-C or --timeout.
    #[arg(short = 'p', long, value_name = "PID", value_parser = units::whole::<i32>(1..))]
    pub pid: Option<i32>,
    /// Stop after this time, such as 90, 90s or 2m; a program that was started here is ended too.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub timeout: Option<Duration>,
    /// Let the plan to try first change settings of the whole machine, which affect all programs.
    #[arg(long)]
    pub allow_machine_wide: bool,
    /// Write the advice to FILE.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write JSON: one object.
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required_unless_present = "pid",
        conflicts_with = "pid"
    )]
    pub command: Vec<OsString>,
}
