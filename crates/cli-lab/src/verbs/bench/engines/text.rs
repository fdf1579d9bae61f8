//! Prints the lines below every table: memory, malloc, the driver's share, and the disclaimer.

use std::io::Write;

use numapilot_cli_kit::terminal::{self, DIM};
use numapilot_engines::Mallocs;

use super::context::RunContext;
use super::open::Bench;

/// For example `glibc in 7 processes`, followed by embedded allocators.
fn describe(mallocs: &Mallocs) -> String {
    let used = mallocs.processes.iter().map(|(name, processes)| {
        let plural = if *processes == 1 { "" } else { "es" };
        format!("{name} in {processes} process{plural}")
    });
    let embedded = mallocs.embedded.iter().map(|embedded| {
        let file = embedded.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{} linked into {file}", embedded.symbol)
    });
    used.chain(embedded).collect::<Vec<_>>().join(", ")
}

/// Prints the lines.
pub fn closing_lines(
    out: &mut impl Write,
    bench: &Bench<'_>,
    context: &RunContext,
) -> anyhow::Result<()> {
    let watched = &context.watched;
    match (watched.peak_held_bytes(), watched.mean_held_bytes(), watched.peak_rss_bytes()) {
        (Some(peak), Some(mean), Some(rss)) => {
            let [peak, mean, rss] = [peak, mean, rss].map(terminal::bytes);
            writeln!(out, "memory held {peak} at most, {mean} on average; peak RSS {rss}")?;
        }
        _ => {
            let reason = watched
                .unsupported
                .as_deref()
                .unwrap_or("the engine ended before the first sample");
            writeln!(out, "memory held <not supported> ({reason})")?;
        }
    }
    match &context.mallocs {
        Ok(mallocs) => writeln!(out, "malloc {}", describe(mallocs))?,
        Err(reason) => writeln!(out, "malloc <not supported> ({reason})")?,
    }
    match watched.driver_share() {
        Some(share) => {
            let engine = terminal::seconds(watched.engine_cpu_seconds);
            writeln!(out, "driver's CPU time {:.2} % of the engine's {engine}", share * 100.0)?;
        }
        None => writeln!(out, "driver's CPU time <not supported> (the engine used none)")?,
    }
    writeln!(out, "{DIM}{}{DIM:#}", bench.dataset.benchmark().disclaimer())?;
    Ok(())
}
