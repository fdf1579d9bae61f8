//! `numapilot lab run`: runs a program on an emulated machine.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::terminal::{Terminal, is_broken_pipe};
use numapilot_cli_kit::units::duration;
use numapilot_lab::{Lab, Streams};
use numapilot_topology::description::machine_named;

use super::args::MachineArgs;
use super::seeds::{self, OneOfSeeds};
use super::{json, svg, text};

/// Arguments of `lab run`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:\n  numapilot lab run -m machine-a -- numapilot bench w1 --records 200k --groups 20k\n  \
numapilot lab run -m machine-a --seeds 5 -- ./program --threads 16\n  \
numapilot lab run -m opteron-8385 --thp never -- numapilot run --interleave all -- ./program")]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    /// End the machine after this time on the host's clock, counted from the program's start
    /// [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Seed of what differs between repetitions on hardware: the guest's random numbers, and the
    /// start of the program relative to the kernel's ticks. Two runs of the same command with the
    /// same files and the same seed give the same figures, on any host and under any load, unless
    /// the program reads standard input or receives signals from outside.
    #[arg(long, value_name = "N", default_value_t = 1, env = "NUMAPILOT_LAB_SEED")]
    seed: u64,
    /// Repeat the run with the seeds 1 to N, with as many guests at a time as the host's CPUs and
    /// free memory allow. Prints the median, minimum and maximum of each figure, and the program's
    /// output with seed 1.
    #[arg(long, value_name = "N", conflicts_with_all = ["seed", "no_model", "svg"], value_parser = clap::value_parser!(u64).range(2..=1000))]
    seeds: Option<u64>,
    // How a run with several seeds starts each of its runs.
    #[arg(long, hide = true)]
    one_of_seeds: Option<OneOfSeeds>,
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
    pub fn run(mut self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if let Some(OneOfSeeds { seed, file }) = self.one_of_seeds.take() {
            (self.seed, self.seeds) = (seed, None);
            (self.json, self.output) = (true, Some(file));
        }
        for path in self.output.iter().chain(&self.svg) {
            file::check(path, Existing::Replace)?;
        }
        if let (Some(output), Some(svg)) = (&self.output, &self.svg) {
            file::check_distinct(("--output", output), ("--svg", svg))?;
        }
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        let varied = self.machine.varied();
        let with = if varied.is_empty() { "" } else { ", with " };
        let title = format!("'{}'{with}{}", words.join(" "), varied.join(", "));
        if let Some(seeds) = self.seeds {
            let result = seeds::run(terminal, &title, seeds, self.json)?;
            if let Some(text) = result.text {
                keep_status(terminal, self.write(terminal, &text));
            }
            return Ok(result.status);
        }
        let machine = machine_named(&self.machine.machine)?;
        let request = self.machine.clone().request(
            self.command.clone(),
            self.timeout,
            Streams::Pipes,
            self.seed,
        )?;
        let outcome = Lab::find()?.run(&request)?;
        if let Some(counted) = &outcome.report {
            let text = if self.json {
                serde_json::to_string_pretty(&json::Json::new(&request, varied, &outcome))? + "\n"
            } else {
                text::tables(&title, &request.shape, counted)
            };
            keep_status(terminal, self.write(terminal, &text));
            for mark in &counted.ignored_marks {
                let why = match mark.split_once(' ') {
                    Some(("end", _)) => ", because the region had not begun",
                    Some(_) => ", because the region had begun already",
                    None => "",
                };
                terminal.warn(format_args!("lab mark {mark}: no effect{why}"));
            }
        }
        let whole = outcome.report.as_ref().and_then(|report| report.regions.first());
        if let (Some(path), Some(region)) = (&self.svg, whole) {
            let picture = svg::draw(&machine, &title, region);
            keep_status(terminal, file::put(path, &picture, Existing::Replace));
        }
        Ok(ExitCode::from(outcome.status))
    }

    /// Writes the figures where they were asked for.
    fn write(&self, terminal: &Terminal, text: &str) -> anyhow::Result<()> {
        match &self.output {
            Some(path) => file::put(path, text, Existing::Replace),
            None if self.json => put(terminal.out(), text),
            // Standard output belongs to the program, as with `stat`.
            None => put(terminal.err(), text),
        }
    }
}

fn put(mut to: impl Write, text: &str) -> anyhow::Result<()> {
    to.write_all(text.as_bytes())?;
    Ok(to.flush()?)
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
