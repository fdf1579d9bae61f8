//! `bench alloc return`: the resident set after 900 MiB have been freed.

mod svg;

use std::io::Write;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::settle::Measured;
use numapilot_cli_kit::terminal::{self, BOLD, Terminal};
use numapilot_cli_kit::units;
use numapilot_workloads::alloc::memory_return::{self, Curve, Options, Outcome};
use numapilot_workloads::size::Grouped;

/// The maximum number of table rows. The JSON and the picture have all points.
const ROWS: usize = 32;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
The objects are freed twice. The first time, the program then allocates and frees a few objects \
every 20 ms; the second time, it sleeps. To compare two allocators:\n\n  \
numapilot run --allocator jemalloc -- numapilot bench alloc return\n  \
numapilot run --allocator numapilot -- numapilot bench alloc return --keep 4096 --watch 13s")]
pub struct Args {
    /// Total size of all objects.
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "900M")]
    bytes: u64,

    /// Size of an object.
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "64")]
    object_bytes: u64,

    /// Keep one object in N instead of freeing all of them.
    #[arg(long, value_name = "N")]
    keep: Option<NonZeroU64>,

    /// How long to watch the RSS afterwards.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "3s")]
    watch: Duration,

    /// Report when the RSS falls below this size.
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "70M")]
    below: u64,

    /// Draw the RSS over time.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if let Some(path) = &self.svg {
            file::check(path, Existing::Replace)?;
        }
        let Self { bytes, object_bytes, keep, watch, .. } = self;
        let outcome = memory_return::run(&Options { bytes, object_bytes, keep, watch })?;
        if let Some(path) = &self.svg {
            let picture = svg::draw(&title(&outcome, object_bytes), &outcome.curves, self.below);
            file::put(path, &picture, Existing::Replace)?;
        }
        if self.json {
            terminal.json(&Measured::new(terminal, &outcome))?;
        } else {
            self.print(terminal, &outcome)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, terminal: &Terminal, outcome: &Outcome) -> anyhow::Result<()> {
        let mut out = terminal.out();
        writeln!(out, "{BOLD}{}{BOLD:#}\n", title(outcome, self.object_bytes))?;
        let mut table = terminal::table(&["freed for", "a little activity", "none"], &[0, 1, 2]);
        let full = cells(outcome, |curve| Some(terminal::bytes(curve.full_rss_bytes)));
        table.add_row(row("before".to_owned(), full));
        let steps = outcome.curves.iter().map(|curve| curve.moments.len()).min().unwrap_or(0);
        for step in (0..steps).step_by(steps.div_ceil(ROWS).max(1)) {
            let after = memory_return::STEP.as_secs_f64() * step as f64;
            let bytes = cells(outcome, |curve| {
                curve.moments.get(step).map(|moment| terminal::bytes(moment.rss_bytes))
            });
            table.add_row(row(format!("{after:.1} s"), bytes));
        }
        let below = cells(outcome, |curve| {
            let after = curve.below(self.below);
            Some(after.map_or_else(|| "never".to_owned(), |after| format!("{after:.1} s")))
        });
        table.add_row(row(format!("below {}", terminal::bytes(self.below)), below));
        writeln!(out, "{}\n", terminal::trimmed(&table))?;
        writeln!(out, "seconds {:.6}", outcome.seconds)?;
        writeln!(out, "objects/s {}", Grouped(outcome.items_per_second as u64))?;
        writeln!(out, "peak RSS {}", terminal::bytes(outcome.peak_rss_bytes))?;
        writeln!(out, "checksum {:016x} (checked)", outcome.checksum)?;
        Ok(())
    }
}

fn row(first: String, [little, none]: [String; 2]) -> [String; 3] {
    [first, little, none]
}

/// A text for each of the two curves; empty where a curve has no value.
fn cells(outcome: &Outcome, text: impl Fn(&Curve) -> Option<String>) -> [String; 2] {
    let mut cells = [String::new(), String::new()];
    for (cell, curve) in cells.iter_mut().zip(&outcome.curves) {
        *cell = text(curve).unwrap_or_default();
    }
    cells
}

fn title(outcome: &Outcome, object_bytes: u64) -> String {
    let parameters = &outcome.figures.parameters;
    let bytes = parameters["bytes"].as_u64().map(terminal::bytes).unwrap_or_default();
    let kept = match parameters["keep_one_in"].as_u64() {
        Some(n) => format!("all but one in {} freed", Grouped(n)),
        None => "all freed".to_owned(),
    };
    format!("alloc-return: {bytes} in objects of {}, {kept}", terminal::bytes(object_bytes))
}
