//! Prints one test with several thread counts: a thread count in each row, an allocator in each
//! column.
//!
//! Source: systematic-numa-study 3.1.8, Figure 2: execution time, and resident memory divided by
//! requested memory.

use std::io::Write;

use numapilot_cli_kit::terminal::{BOLD, Terminal, table, trimmed};
use numapilot_study::results::{Cell, Results};

use crate::verbs::bench::alloc::text::{blocks, notes};

/// Reads a figure from a cell.
pub type Figure = fn(&Cell) -> Option<f64>;

/// The two figures: title, value, and number of decimals.
pub const FIGURES: [(&str, Figure, usize); 2] = [
    ("Time in seconds", |cell| cell.wall_seconds, 3),
    ("RSS / requested", |cell| cell.rss_per_requested, 2),
];

/// Prints both tables.
pub fn print(terminal: &Terminal, results: &Results, rounds: u32) -> anyhow::Result<()> {
    let mut out = terminal.out();
    let plural = if rounds == 1 { "" } else { "s" };
    writeln!(
        out,
        "alloc-mix by number of threads, each with the same work; medians of {rounds} round{plural}\n"
    )?;
    for (title, figure, digits) in FIGURES {
        for columns in blocks(results, terminal.width()) {
            let names = columns.iter().map(|&c| results.allocators[c].name.as_str());
            let header: Vec<&str> = std::iter::once("threads").chain(names).collect();
            let mut rows = table(&header, &(0..=columns.len()).collect::<Vec<_>>());
            for row in &results.tests {
                let cells = columns.iter().map(|&c| text(&row.results[c], figure, digits));
                rows.add_row(std::iter::once(row.threads.to_string()).chain(cells));
            }
            writeln!(out, "{BOLD}{title}{BOLD:#}\n{}\n", trimmed(&rows))?;
        }
    }
    notes(&mut out, results)
}

fn text(cell: &Cell, figure: Figure, digits: usize) -> String {
    match (figure(cell), &cell.failure) {
        (_, Some(_)) => "failed".to_owned(),
        (Some(value), None) => format!("{value:.digits$}"),
        (None, None) => "-".to_owned(),
    }
}
