//! `bench k1` to `bench k12`: the NUMA pathology kernels, one illness and its cures each.

pub mod all;
mod lab;
mod picture;
mod table;
mod under;

use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use numapilot_workloads::kernels::{self, Kernel, Options, Outcome, Place, Time};
use numapilot_workloads::size::Grouped;

use crate::settle::Measured;
use crate::terminal::{self, BOLD, Terminal};
use crate::units;

/// Sizes by name.
#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    /// 16 MiB: enough for the small caches of emulated machines.
    Lab,
    /// 256 MiB: more than the caches of most machines.
    Laptop,
    /// The 1 GiB of a burst of IS.
    Paper,
}

impl Scale {
    const fn bytes(self) -> u64 {
        match self {
            Self::Lab => 16 << 20,
            Self::Laptop => 256 << 20,
            Self::Paper => 1 << 30,
        }
    }
}

/// What every kernel takes.
#[derive(clap::Args)]
struct Common {
    /// Threads, each pinned to a CPU, the nodes in turn [default: the CPUs that may be used].
    #[arg(short = 't', long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Size that is not given [default: lab in a lab, else laptop].
    #[arg(long, value_enum)]
    scale: Option<Scale>,

    /// What all threads together work on, as in 64M.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    size: Option<u64>,

    /// Seed of the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Do the work again and again for so long (simulated time in a lab), and say how fast it was
    /// in the end.
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    lasts: Option<Duration>,

    /// Predict the time from this machine description [default: the lab's, in a lab].
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of a kernel.
#[derive(clap::Args)]
pub struct Args {
    /// Where its memory goes; each kernel takes some of these.
    #[arg(long, value_name = "PLACE", default_value = "first-touch",
          value_parser = PossibleValuesParser::new(Place::ALL.map(Place::name))
              .try_map(|name| name.parse::<Place>()))]
    place: Place,

    #[command(flatten)]
    common: Common,
}

/// Arguments of k6.
#[derive(clap::Args)]
pub struct Rotate {
    #[command(flatten)]
    args: Args,

    /// How long threads stay on a node [default: two passes over their arrays].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    period: Option<Duration>,
}

/// Arguments of k11.
#[derive(clap::Args)]
pub struct ReadMostly {
    #[command(flatten)]
    args: Args,

    /// Reads for one write.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = crate::units::whole::<u64>(1..))]
    writes_every: u64,
}

impl Common {
    fn options(&self, place: Place) -> anyhow::Result<Options> {
        let threads = self.threads.or(thread::available_parallelism().ok());
        let usual = match kernels::time()? {
            Time::Simulated => Scale::Lab,
            Time::Wall => Scale::Laptop,
        };
        Ok(Options {
            place,
            threads: threads.unwrap_or(NonZeroUsize::MIN),
            bytes: self.size.unwrap_or(self.scale.unwrap_or(usual).bytes()),
            seed: self.seed,
            period: None,
            lasts: self.lasts,
            writes_every: None,
            machine: self.machine.clone(),
        })
    }
}

impl Args {
    pub fn run(self, terminal: &Terminal, kernel: Kernel) -> anyhow::Result<ExitCode> {
        let options = self.common.options(self.place)?;
        self.with(terminal, kernel, &options)
    }

    fn with(
        &self,
        terminal: &Terminal,
        kernel: Kernel,
        options: &Options,
    ) -> anyhow::Result<ExitCode> {
        let outcome = kernels::run(kernel, options)?;
        if self.common.json {
            terminal.json(&Measured::new(terminal, &outcome))?;
        } else {
            print(terminal, kernel, options, &outcome)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Rotate {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let options = self.args.common.options(self.args.place)?;
        let options = Options { period: self.period, ..options };
        self.args.with(terminal, Kernel::Rotate, &options)
    }
}

impl ReadMostly {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let options = self.args.common.options(self.args.place)?;
        let options = Options { writes_every: Some(self.writes_every), ..options };
        self.args.with(terminal, Kernel::ReadMostly, &options)
    }
}

fn print(
    terminal: &Terminal,
    kernel: Kernel,
    options: &Options,
    outcome: &Outcome,
) -> anyhow::Result<()> {
    let mut out = terminal.out();
    writeln!(out, "{BOLD}{kernel}: {}{BOLD:#}", kernel.about())?;
    writeln!(
        out,
        "{} on {}, {}, {}\n",
        terminal::plural(outcome.figures.threads, "thread"),
        terminal::plural(outcome.nodes, "node"),
        terminal::bytes(options.bytes),
        table::placement(options.place, outcome.mitigation),
    )?;
    let mut rows = terminal::table(&["node", "pages"], &[0, 1]);
    for on in &outcome.pages {
        rows.add_row([on.node.to_string(), Grouped(on.pages).to_string()]);
    }
    writeln!(out, "{}\n", terminal::trimmed(&rows))?;
    let simulated = if outcome.time == Time::Simulated { " (simulated)" } else { "" };
    writeln!(out, "seconds {:.6}{simulated}", outcome.seconds)?;
    match (outcome.predicted_seconds, &outcome.predicted_bound, outcome.ratio()) {
        (Some(seconds), Some(bound), Some(ratio)) => {
            writeln!(out, "predicted {seconds:.6} ({bound}; measured / predicted {ratio:.2})")?;
        }
        _ => {
            let why = outcome.unsupported.get("predicted_seconds").map_or("", String::as_str);
            writeln!(out, "predicted <not supported> ({why})")?;
        }
    }
    writeln!(out, "items/s {}", Grouped(outcome.items_per_second as u64))?;
    if !outcome.rounds.is_empty() {
        let settled = Grouped(outcome.settled_items_per_second as u64);
        writeln!(out, "settled items/s {settled} ({} rounds)", outcome.rounds.len())?;
    }
    writeln!(out, "peak RSS {}", terminal::bytes(outcome.peak_rss_bytes))?;
    writeln!(out, "checksum {:016x} (checked)", outcome.checksum)?;
    for note in &outcome.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}
