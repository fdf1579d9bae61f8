//! Arguments of `fleet`.

use std::path::PathBuf;

use numapilot_cli_kit::units;

/// Arguments of `fleet`.
#[derive(clap::Args)]
#[command(after_help = "\
The files are those of `numapilot tune --parquet FILE`, one from each host. Any program that reads \
Parquet can query them as well.\n\n\
Examples:\n  numapilot fleet report results/\n  numapilot fleet compare before/ after/")]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand)]
pub enum Verb {
    /// Show which plan is best on which kind of machine, with intervals.
    Report(ReportArgs),
    /// Show what has changed from one set of runs to another, host by host.
    Compare(CompareArgs),
}

/// Options of both.
#[derive(clap::Args)]
pub struct Common {
    /// Joint confidence of the intervals of one table, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "95")]
    pub confidence: f64,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `fleet report`.
#[derive(clap::Args)]
pub struct ReportArgs {
    /// Files, and directories with files *.parquet.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `fleet compare`.
#[derive(clap::Args)]
pub struct CompareArgs {
    /// A file, or a directory with files *.parquet.
    #[arg(value_name = "FIRST")]
    pub first: PathBuf,
    /// The same, with runs of the same hosts, such as later ones.
    #[arg(value_name = "SECOND")]
    pub second: PathBuf,
    #[command(flatten)]
    pub common: Common,
}
