//! Arguments of `export-metrics`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;

use crate::period::AsPerf;
use crate::verbs::selection::Selection;

/// Arguments of `export-metrics`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub selection: Selection,
    /// Serve http://ADDR/metrics; port 0 takes a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9899",
          conflicts_with_all = ["textfile", "once"])]
    pub listen: SocketAddr,
    /// Write DIR/NAME.prom for the textfile collector of the node exporter instead of serving.
    #[arg(long, value_name = "DIR")]
    pub textfile: Option<PathBuf>,
    /// Name of the file of --textfile, without .prom; each exporter needs one of its own.
    #[arg(long, value_name = "NAME", default_value = "numapilot", requires = "textfile",
          value_parser = name)]
    pub name: String,
    /// Leave out the metrics of the machine: for the second of two exporters whose metrics meet, as
    /// in one directory of --textfile.
    #[arg(long)]
    pub targets_only: bool,
    /// Collect for one interval, print the metrics (or write the file of --textfile) and exit.
    #[arg(long)]
    pub once: bool,
    /// Time between two collections.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "10s",
          value_parser = units::duration)]
    pub interval: Duration,
    #[command(flatten)]
    pub as_perf: AsPerf,
}

/// Parses the name of a file. The node exporter reads no hidden file.
fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('.') || text.contains(['/', '\0', '\n']) {
        return Err("give the name of a file without its directory and .prom".to_owned());
    }
    Ok(text.strip_suffix(".prom").unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files_in_the_directory() {
        assert_eq!(name("db").as_deref(), Ok("db"));
        assert_eq!(name("db.prom").as_deref(), Ok("db"));
        for wrong in ["", ".db", "../db", "a/b", ".prom"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
