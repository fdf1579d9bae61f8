//! `numapilot topo`: what the machine is.

mod caches;
mod fold;
mod json;
mod matrix;
mod root;
mod tree;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use numapilot_topology::Recording;

use self::root::Root;
use crate::terminal::Terminal;

/// Arguments of `topo`.
#[derive(clap::Args)]
pub struct Args {
    /// Show another machine: from DIR/sys and DIR/proc, or from a file that --record wrote.
    #[arg(long, value_name = "DIR|FILE", default_value = "/")]
    root: PathBuf,

    /// Write what the kernel shows of the machine to FILE, to look at it elsewhere.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let root = Root::open(&self.root)?;
        if let Some(file) = &self.record {
            let recording = Recording::take(root.path())?;
            fs::write(file, recording.to_string())
                .with_context(|| format!("cannot write {}", file.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let machine = numapilot_topology::read(root.path())?;
        if self.json {
            terminal.json(&json::Report::new(&machine))?;
        } else {
            write!(terminal.out(), "{}", tree::draw(&machine, terminal.width()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
