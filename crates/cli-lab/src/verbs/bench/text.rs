//! A workload's result as text, with two lines for programs: `seconds 1.234` and `checksum
//! 0123456789abcdef`.

use std::io::Write;

use numapilot_cli_kit::terminal::{self, BOLD, Terminal};
use numapilot_workloads::Outcome;
use numapilot_workloads::size::Grouped;

/// What is printed besides the phases of a run.
pub struct Page<'a> {
    /// The heading.
    pub title: &'a str,
    /// The number of records that a phase processes, by the phase's name.
    pub items: &'a dyn Fn(&str) -> u64,
    /// The size of the result, as in `groups 12`.
    pub size: String,
    /// The checksum of the result.
    pub checksum: u64,
}

/// A rate in powers of 1000, as in `12.3 M`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        n if n >= 1e6 => format!("{:.1} M", n / 1e6),
        n if n >= 1e3 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.1}"),
    }
}

/// Prints the phases and the result.
pub fn outcome<A>(
    terminal: &Terminal,
    page: &Page<'_>,
    outcome: &Outcome<A>,
) -> anyhow::Result<()> {
    let title = page.title;
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
            rate((page.items)(phase.name) as f64 / seconds),
        ]);
    }
    writeln!(out, "{}", terminal::trimmed(&table))?;
    writeln!(out)?;
    writeln!(out, "seconds {:.6}", outcome.seconds)?;
    writeln!(out, "records/s {}", Grouped(outcome.items_per_second as u64))?;
    writeln!(out, "peak RSS {}", terminal::bytes(outcome.peak_rss_bytes))?;
    writeln!(out, "{}", page.size)?;
    let checked = if outcome.checked { " (checked)" } else { "" };
    writeln!(out, "checksum {:016x}{checked}", page.checksum)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_phases_have_a_rate_too() {
        assert_eq!([4e7, 12_345.0, 7.0].map(rate), ["40.0 M", "12.3 k", "7.0"]);
    }
}
