//! Arguments of `topo`.

use std::path::PathBuf;

use numapilot_cli_kit::units;

/// Arguments of `topo`.
#[derive(clap::Args)]
pub struct Args {
    /// Show another machine: from DIR/sys and DIR/proc, or from a file that --record wrote.
    #[arg(long, value_name = "DIR|FILE", default_value = "/")]
    pub root: PathBuf,

    /// Show a described machine: from a file, or one that numapilot ships (such as machine-a).
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "root")]
    pub machine: Option<String>,

    /// Write the kernel's description of the machine to FILE, to show it elsewhere.
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub record: Option<PathBuf>,

    /// Draw the machine to FILE ('-' is standard output) instead of printing it.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub svg: Option<PathBuf>,

    /// Measure latency and bandwidth between the nodes, and latency under load (about 10 s).
    #[arg(long, conflicts_with_all = ["root", "machine", "record"])]
    pub measure: bool,

    /// Memory to use for measuring each node, such as 512M (default: 8 times the last cache).
    #[arg(long, value_name = "SIZE", requires = "measure", value_parser = units::size)]
    pub measure_size: Option<u64>,

    /// Write the measured machine to FILE, for --machine.
    #[arg(long, value_name = "FILE", requires = "measure")]
    pub save: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}
