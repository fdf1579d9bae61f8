//! `numapilot topo`: what the machine is.

mod caches;
mod fold;
mod json;
mod matrix;
mod tree;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use numapilot_topology::Machine;

use crate::terminal::Terminal;

/// Arguments of `topo`.
#[derive(clap::Args)]
pub struct Args {
    /// Read the machine from DIR/sys and DIR/proc, a copy of another machine's.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let machine = self.machine()?;
        if self.json {
            terminal.json(&json::Report::new(&machine))?;
        } else {
            write!(terminal.out(), "{}", tree::draw(&machine, terminal.width()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The machine the arguments name.
    fn machine(&self) -> anyhow::Result<Machine> {
        Ok(numapilot_topology::read(&self.root)?)
    }
}
