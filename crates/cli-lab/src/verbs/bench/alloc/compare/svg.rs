//! Draws one test with several thread counts: a panel for each figure, with a line for each
//! allocator.
//!
//! ```text
//!  Time in seconds              RSS / requested
//!  2 |        . glibc           2 |
//!  1 |  .--*--. mimalloc        1 |  .-----.
//!    +--1--2--4 threads           +--1--2--4 threads
//! ```

use numapilot_cli_kit::chart::{Axis, Chart, Labels, Names, Page, Series};
use numapilot_cli_kit::terminal::plural;
use numapilot_study::results::{Cell, Results};

use super::text::{FIGURES, Figure};

/// Width and height of a panel's plot.
const PLOT: (f64, f64) = (290.0, 260.0);

/// Draws the picture.
pub fn draw(results: &Results, rounds: u32) -> String {
    let charts = FIGURES.map(|(title, figure, _)| chart(results, title, figure));
    let rounds = plural(rounds, "round");
    let subtitle = format!("each thread with the same work; medians of {rounds}; lower is better");
    let title = "alloc-mix by number of threads";
    Page { title, subtitle: &subtitle, plot: PLOT, beside: true, ..Page::default() }.draw(&charts)
}

fn chart(results: &Results, title: &str, figure: Figure) -> Chart {
    let shown = |cell: &Cell| figure(cell).filter(|_| cell.failure.is_none());
    let series = results.allocators.iter().enumerate().map(|(index, allocator)| {
        let values = results.tests.iter().map(|row| shown(&row.results[index])).enumerate();
        let points = values.filter_map(|(column, value)| Some((column as f64, value?))).collect();
        Series { name: allocator.name.clone(), points, marked: true }
    });
    let threads = results.tests.iter().map(|row| row.threads.to_string()).collect();
    Chart {
        title: title.to_owned(),
        x: Axis { name: "threads".to_owned(), labels: Labels::Names(threads), ..Axis::default() },
        series: series.collect(),
        names: Names::AtEnds,
        ..Chart::default()
    }
}
