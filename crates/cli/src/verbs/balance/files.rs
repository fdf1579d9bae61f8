//! The files of `-o` and `--record`. They are opened before anything runs, also where there is
//! nothing to balance, so that a file that cannot be written is an error at once.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::Context;
use numapilot_balance::trace::{Header, Writer};
use numapilot_balance::{Nodes, Setup};
use numapilot_cli_kit::file;
use numapilot_topology::Machine;

use super::args::Args;

/// What failed when a recording is not written.
pub const RECORDING: &str = "cannot write the trace";

/// A recording that is being written.
pub type Trace = Writer<BufWriter<File>>;

/// The files that the user named. What is in them stays until the first write.
pub struct Files {
    /// That of `-o`.
    pub output: Option<File>,
    /// That of `--record`.
    record: Option<File>,
}

impl Files {
    /// Opens them. New ones may be read by their owner only, because they show the addresses of a
    /// program's memory.
    ///
    /// # Errors
    /// One cannot be written, or both are the same.
    pub fn open(args: &Args) -> anyhow::Result<Self> {
        if let (Some(output), Some(record)) = (&args.output, &args.record) {
            file::check_distinct(("--output", output), ("--record", record))?;
        }
        let open = |path: Option<&Path>| path.map(|path| file::open(path, 0o600)).transpose();
        Ok(Self { output: open(args.output.as_deref())?, record: open(args.record.as_deref())? })
    }

    /// Begins the recording, if there is to be one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn trace(&mut self, machine: &Machine, setup: Setup) -> anyhow::Result<Option<Trace>> {
        let Some(file) = self.record.take() else { return Ok(None) };
        file::empty(&file).context(RECORDING)?;
        let header = Header { nodes: Nodes::of(machine), setup };
        Ok(Some(Writer::begin(BufWriter::new(file), &header).context(RECORDING)?))
    }

    /// Writes that there was no interval: an empty output, and a recording without one. The files of
    /// an earlier run would be taken for those of this one.
    ///
    /// # Errors
    /// One cannot be written.
    pub fn write_nothing(mut self, machine: &Machine, setup: Setup) -> anyhow::Result<()> {
        if let Some(output) = &self.output {
            file::empty(output).context("cannot write the output")?;
        }
        let trace = self.trace(machine, setup)?;
        trace.map_or(Ok(()), |trace| trace.end().map(drop).context(RECORDING))
    }
}
