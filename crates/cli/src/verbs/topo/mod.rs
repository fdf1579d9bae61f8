//! `numapilot topo`: shows the machine.

mod caches;
mod fold;
mod json;
mod matrix;
mod measure;
mod root;
pub(super) mod svg;
mod tree;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::terminal::Terminal;
use numapilot_cli_kit::units;
use numapilot_topology::{Machine, description};

use self::root::Root;

/// Arguments of `topo`.
#[derive(clap::Args)]
pub struct Args {
    /// Show another machine: from DIR/sys and DIR/proc, or from a file that --record wrote.
    #[arg(long, value_name = "DIR|FILE", default_value = "/")]
    root: PathBuf,

    /// Show a described machine: from a file, or one that numapilot ships (such as machine-a).
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "root")]
    machine: Option<String>,

    /// Write the kernel's description of the machine to FILE, to show it elsewhere.
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    record: Option<PathBuf>,

    /// Draw the machine to FILE ('-' is standard output) instead of printing it.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,

    /// Measure latency and bandwidth between the nodes, and latency under load (about 10 s).
    #[arg(long, conflicts_with_all = ["root", "machine", "record"])]
    measure: bool,

    /// Memory to use for measuring each node, such as 512M (default: 8 times the last cache).
    #[arg(long, value_name = "SIZE", requires = "measure", value_parser = units::size)]
    measure_size: Option<u64>,

    /// Write the measured machine to FILE, for --machine.
    #[arg(long, value_name = "FILE", requires = "measure")]
    save: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if let Some(file) = &self.record {
            let recording = Root::open(&self.root)?.recording()?;
            save(terminal, file, &recording.to_string())?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut machine = self.machine()?;
        let measurement = match self.measure {
            true => Some(measure::run(terminal, &mut machine, self.measure_size)?),
            false => None,
        };
        if let Some(file) = &self.svg {
            save(terminal, file, &svg::draw(&machine))?;
        } else if self.json {
            terminal.json(&json::Report::new(&machine, measurement.as_ref()))?;
        } else {
            let mut text = tree::draw(&machine, terminal.width());
            if let Some(measurement) = &measurement {
                text += &measure::report(&machine, measurement);
            }
            write!(terminal.out(), "{text}")?;
        }
        // This comes last, so that the figures are printed even if they cannot be saved.
        if let (Some(file), Some(measurement)) = (&self.save, &measurement) {
            measure::save(file, &machine, measurement)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The machine that the arguments select.
    fn machine(&self) -> anyhow::Result<Machine> {
        match &self.machine {
            Some(name) => Ok(description::machine_named(name)?),
            None => Root::open(&self.root)?.machine(),
        }
    }
}

/// Writes a whole text to a file, or to standard output for `-`.
fn save(terminal: &Terminal, path: &Path, text: &str) -> anyhow::Result<()> {
    if path == Path::new("-") {
        write!(terminal.out(), "{text}")?;
        return Ok(());
    }
    file::put(path, text, Existing::Replace)
}
