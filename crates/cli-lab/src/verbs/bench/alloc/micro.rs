//! `bench alloc NAME`: the allocator micro-benchmarks.

use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;
use numapilot_cli_kit::settle::Measured;
use numapilot_cli_kit::terminal::{self, BOLD, Terminal};
use numapilot_workloads::alloc::{self, Bench, Options, Outcome};
use numapilot_workloads::size::{Grouped, parse_count};

use crate::verbs::bench::args::Shared;

/// Named sizes.
#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    /// Takes about a second on two cores.
    Laptop,
    /// The paper's size where it states one: 100 M operations per thread of `mix`.
    Paper,
}

/// Arguments of a micro-benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Operations per thread, as in 10M [default: from --scale].
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count)]
    operations: Option<u64>,

    /// The number of operations if --operations is not given.
    #[arg(long, value_enum, default_value_t = Scale::Laptop)]
    scale: Scale,

    #[command(flatten)]
    shared: Shared,
}

impl Args {
    pub fn run(self, terminal: &Terminal, bench: Bench) -> anyhow::Result<ExitCode> {
        let usual = match self.scale {
            Scale::Laptop => bench.usual_operations(),
            Scale::Paper => bench.paper_operations().unwrap_or(bench.usual_operations()),
        };
        let options = Options {
            threads: self.shared.threads(),
            operations: self.operations.unwrap_or(usual),
            seed: self.shared.seed,
        };
        let outcome = alloc::run(bench, &options)?;
        if self.shared.json {
            terminal.json(&Measured::new(terminal, &outcome))?;
        } else {
            print(terminal, &options, &outcome)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(terminal: &Terminal, options: &Options, outcome: &Outcome) -> anyhow::Result<()> {
    let mut out = terminal.out();
    let Options { threads, operations, .. } = *options;
    let plural = if threads.get() == 1 { "" } else { "s" };
    writeln!(
        out,
        "{BOLD}{}: {threads} thread{plural}, {} operations each{BOLD:#}\n",
        outcome.figures.workload,
        Grouped(operations)
    )?;
    let mut rows = terminal::table(&["size up to", "allocations", "share"], &[0, 1, 2]);
    for class in outcome.sizes.classes() {
        let share = 100.0 * class.allocations as f64 / outcome.allocations as f64;
        rows.add_row([
            terminal::bytes(class.up_to_bytes),
            Grouped(class.allocations).to_string(),
            format!("{share:.1} %"),
        ]);
    }
    writeln!(out, "{}\n", terminal::trimmed(&rows))?;
    writeln!(out, "seconds {:.6}", outcome.seconds)?;
    writeln!(out, "CPU time {}", terminal::seconds(outcome.cpu_seconds))?;
    writeln!(out, "operations/s {}", Grouped(outcome.items_per_second as u64))?;
    writeln!(out, "peak RSS {}", terminal::bytes(outcome.peak_rss_bytes))?;
    writeln!(out, "requested {}", terminal::bytes(outcome.requested_bytes))?;
    match outcome.rss_per_requested {
        Some(ratio) => writeln!(out, "RSS / requested {ratio:.2}")?,
        None => writeln!(out, "RSS / requested <not supported> (less than 1 MiB is requested)")?,
    }
    writeln!(out, "checksum {:016x} (checked)", outcome.checksum)?;
    Ok(())
}
