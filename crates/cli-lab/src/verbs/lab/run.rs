//! `numapilot lab run`: runs a program on an emulated machine.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::terminal::{Terminal, is_broken_pipe};
use numapilot_cli_kit::units::duration;
use numapilot_lab::{Lab, Streams};
use numapilot_topology::description::machine_named;

use super::args::MachineArgs;
use super::{json, svg, text};

/// Arguments of `lab run`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    /// End the machine after this time, counted from the program's start.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Print the figures as JSON, on standard output after the program's output.
    #[arg(long, conflicts_with = "no_model")]
    json: bool,
    /// Write the figures to FILE instead of the terminal.
    #[arg(short, long, value_name = "FILE", conflicts_with = "no_model")]
    output: Option<PathBuf>,
    /// Draw the traffic of nodes and links to FILE.
    #[arg(long, value_name = "FILE", conflicts_with = "no_model")]
    svg: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        for path in self.output.iter().chain(&self.svg) {
            file::check(path, Existing::Replace)?;
        }
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        let title = format!("'{}'", words.join(" "));
        let machine = machine_named(&self.machine.machine)?;
        let request = self.machine.request(self.command, self.timeout, Streams::Pipes)?;
        let outcome = Lab::find()?.run(&request)?;
        if outcome.boots > 1 {
            let boots = outcome.boots;
            terminal.warn(format_args!(
                "the guest ran after {boots} boots: in the others it or QEMU failed"
            ));
        }
        if let Some(counted) = &outcome.report {
            let text = if self.json {
                serde_json::to_string_pretty(&json::Json::new(&request.shape, &outcome))? + "\n"
            } else {
                text::tables(&title, &request.shape, counted)
            };
            let written = match &self.output {
                Some(path) => file::put(path, &text, Existing::Replace),
                None if self.json => put(terminal.out(), &text, "standard output"),
                // Standard output belongs to the program, as with `stat`.
                None => put(terminal.err(), &text, "standard error"),
            };
            keep_status(terminal, written);
        }
        let whole = outcome.report.as_ref().and_then(|report| report.regions.first());
        if let (Some(path), Some(region)) = (&self.svg, whole) {
            let picture = svg::draw(&machine, &title, region);
            keep_status(terminal, file::put(path, &picture, Existing::Replace));
        }
        Ok(ExitCode::from(outcome.status))
    }
}

fn put(mut to: impl Write, text: &str, name: &str) -> anyhow::Result<()> {
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    written.with_context(|| format!("cannot write the figures: {name}"))
}

/// When the figures cannot be written, the program has still run: its exit status is kept.
fn keep_status(terminal: &Terminal, written: anyhow::Result<()>) {
    match written {
        // A broken pipe means that the reader wants no more.
        Err(error) if !is_broken_pipe(&error) => {
            terminal.warn(format_args!("{error:#}; the exit status is the program's"));
        }
        _ => {}
    }
}
