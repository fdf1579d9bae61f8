//! `numapilot balance replay FILE`: decides again from a recording.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use numapilot_balance::trace::{Reader, Replay};
use numapilot_balance::{Done, Interval};
use numapilot_cli_kit::file;
use numapilot_cli_kit::terminal::Terminal;

use super::text::{Line, Output};
use crate::sink::Sink;

/// Arguments of `balance replay`.
#[derive(clap::Args)]
pub struct Args {
    /// A trace that `balance --record` has written.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write a line of JSON for every process and interval to standard output.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(&self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let name = || self.file.display().to_string();
        let file = File::open(&self.file).map_err(|error| file::not_read(&self.file, error))?;
        let reader = Reader::begin(BufReader::new(file)).with_context(name)?;
        let mut replay = Replay::new(reader);
        let mut output = Output::new(*terminal, Sink::out(*terminal), self.json, false, true);
        while let Some((recorded, decision)) = replay.step().with_context(name)? {
            let done =
                recorded.done.map(|(moved, took_ns)| Done { moved, took_ns, ..Done::default() });
            let interval = Interval { decision, done, error: None };
            output.interval(&Line::of(recorded.now_ns, recorded.pid, &interval, 0))?;
        }
        output.replayed();
        Ok(ExitCode::SUCCESS)
    }
}
