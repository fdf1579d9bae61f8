//! The result of one kernel as text.

use std::io::Write;

use numapilot_cli_kit::terminal::{self, BOLD, Terminal};
use numapilot_workloads::kernels::{Kernel, Options, Outcome, Place, Time};
use numapilot_workloads::size::Grouped;

/// Prints the result.
pub fn print(
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
        placement(options.place, outcome.mitigation),
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

/// The placement; for `--place best` with the placement that it stands for.
fn placement(asked: Place, mitigation: Place) -> String {
    match asked {
        Place::Best => format!("placement best, which is {mitigation}"),
        place => format!("placement {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_says_what_it_is() {
        assert_eq!(placement(Place::Best, Place::Split), "placement best, which is split");
    }
}
