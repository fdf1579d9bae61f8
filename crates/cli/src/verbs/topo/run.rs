//! Runs `topo`: reads, measures and prints a machine.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::terminal::Terminal;
use numapilot_topology::{Machine, description};

use super::args::Args;
use super::root::Root;
use super::{json, measure, svg, text};

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
            let mut all = text::draw(&machine, terminal.width());
            if let Some(measurement) = &measurement {
                all += &measure::report(&machine, measurement);
            }
            write!(terminal.out(), "{all}")?;
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
