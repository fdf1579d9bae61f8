//! A workload's result for people, with two lines for programs: `seconds 1.234` and
//! `checksum 0123456789abcdef`.

use std::io::Write;

use numapilot_workloads::Outcome;
use numapilot_workloads::size::Grouped;

use crate::terminal::{self, BOLD, Terminal};

/// Prints the phases and the result; `items` is what the phases worked through.
pub fn outcome(
    terminal: &Terminal,
    title: &str,
    items: u64,
    outcome: &Outcome,
) -> anyhow::Result<()> {
    let mut out = terminal.out();
    let threads = outcome.figures.threads;
    let plural = if threads == 1 { "" } else { "s" };
    writeln!(out, "{BOLD}{title}, {threads} thread{plural}{BOLD:#}")?;
    writeln!(out)?;
    let mut table = terminal::table(&["phase", "time", "CPU time", "records/s"], &[1, 2, 3]);
    for phase in &outcome.phases {
        let seconds = phase.duration.as_secs_f64();
        table.add_row([
            phase.name.to_owned(),
            terminal::seconds(seconds),
            terminal::seconds(phase.cpu.as_secs_f64()),
            format!("{:.1} M", items as f64 / seconds / 1e6),
        ]);
    }
    writeln!(out, "{table}")?;
    writeln!(out)?;
    writeln!(out, "seconds {:.6}", outcome.seconds)?;
    writeln!(out, "records/s {}", Grouped(outcome.items_per_second as u64))?;
    writeln!(out, "peak RSS {}", terminal::bytes(outcome.peak_rss_bytes))?;
    writeln!(out, "groups {}", outcome.answer.groups)?;
    let checked = if outcome.checked { " (checked)" } else { "" };
    writeln!(out, "checksum {:016x}{checked}", outcome.answer.checksum)?;
    Ok(())
}
