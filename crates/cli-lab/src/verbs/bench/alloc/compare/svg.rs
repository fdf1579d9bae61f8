//! Draws one test with several thread counts: a panel for each figure, with a line for each
//! allocator.
//!
//! ```text
//!  Time in seconds              RSS / requested
//!  2 |        . glibc           2 |
//!  1 |  .--*--. mimalloc        1 |  .-----.
//!    +--1--2--4 threads           +--1--2--4 threads
//! ```

use std::fmt::Write;

use numapilot_cli_kit::axis::LinearAxis;
use numapilot_cli_kit::svg::{Svg, text_width};
use numapilot_study::results::{Cell, Results};

use super::text::{FIGURES, Figure};

const MARGIN: f64 = 20.0;
const TOP: f64 = 104.0;
/// Width of a panel's plot.
const WIDTH: f64 = 290.0;
const HEIGHT: f64 = 260.0;
/// Space for the numbers left of a plot.
const NUMBERS: f64 = 44.0;
const RADIUS: f64 = 3.5;
/// Minimum distance between names.
const LINE: f64 = 14.0;

/// Draws the picture.
pub fn draw(results: &Results, rounds: u32) -> String {
    let mut svg = Svg::default();
    let title = "alloc-mix by number of threads";
    svg.text("strong large", MARGIN, 30.0, title);
    let plural = if rounds == 1 { "" } else { "s" };
    let subtitle = format!(
        "each thread with the same work; medians of {rounds} round{plural}; lower is better"
    );
    svg.text("dim", MARGIN, 52.0, &subtitle);
    let names = results.allocators.iter().map(|a| text_width(&a.name, 11.0));
    let panel = NUMBERS + WIDTH + 12.0 + names.fold(0.0, f64::max) + MARGIN;
    for (index, (name, figure, _)) in FIGURES.into_iter().enumerate() {
        let left = MARGIN + NUMBERS + panel * index as f64;
        svg.text("strong", left, TOP - 22.0, name);
        draw_panel(&mut svg, results, left, figure);
    }
    let width = (MARGIN + panel * FIGURES.len() as f64).max(text_width(&subtitle, 13.0));
    svg.finish(width, TOP + HEIGHT + 56.0, title)
}

fn draw_panel(svg: &mut Svg, results: &Results, left: f64, figure: Figure) {
    let cells = results.tests.iter().flat_map(|row| &row.results);
    let shown = |cell: &Cell| figure(cell).filter(|_| cell.failure.is_none());
    let axis = LinearAxis::new(cells.filter_map(shown).fold(0.0, f64::max));
    let bottom = TOP + HEIGHT;
    let y = |value: f64| bottom - HEIGHT * axis.share(value);
    let spaces = results.tests.len().saturating_sub(1).max(1) as f64;
    let x = |column: usize| left + 12.0 + (WIDTH - 24.0) * column as f64 / spaces;
    for tick in axis.ticks() {
        svg.line("grid", (left, y(tick)), (left + WIDTH, y(tick)));
        svg.text("dim small end", left - 8.0, y(tick) + 4.0, &axis.label(tick));
    }
    svg.line("axis", (left, bottom), (left + WIDTH, bottom));
    for (column, row) in results.tests.iter().enumerate() {
        svg.text("dim small middle", x(column), bottom + 16.0, &row.threads.to_string());
    }
    svg.text("dim small middle", left + WIDTH / 2.0, bottom + 34.0, "threads");
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for index in 0..results.allocators.len() {
        let values = results.tests.iter().map(|row| shown(&row.results[index])).enumerate();
        let points: Vec<(f64, f64)> =
            values.filter_map(|(column, value)| Some((x(column), y(value?)))).collect();
        let mut path = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let command = if number == 0 { 'M' } else { 'L' };
            // Writing to a String cannot fail.
            let _ = write!(path, "{command}{x:.1} {y:.1}");
            svg.dot(index, *x, *y, RADIUS);
        }
        if points.len() > 1 {
            svg.path(index, 1.8, &path);
        }
        ends.extend(points.last().map(|(_, y)| (*y, index)));
    }
    for (y, index) in spread(ends, bottom) {
        let text = left + WIDTH + 10.0;
        svg.dot(index, left + WIDTH + 3.0, y, RADIUS);
        svg.text("text small", text, y + 4.0, &results.allocators[index].name);
    }
}

/// Moves names apart that are too close to each other. None moves below `bottom`.
fn spread(mut ends: Vec<(f64, usize)>, bottom: f64) -> Vec<(f64, usize)> {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lowest = f64::NEG_INFINITY;
    for (y, _) in &mut ends {
        *y = y.max(lowest + LINE);
        lowest = *y;
    }
    let mut highest = bottom + LINE;
    for (y, _) in ends.iter_mut().rev() {
        *y = y.min(highest - LINE);
        highest = *y;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_touch() {
        let ends = vec![(100.0, 0), (101.0, 1), (50.0, 2), (199.0, 3), (200.0, 4)];
        let places = spread(ends, 200.0);
        assert!(places.windows(2).all(|pair| pair[1].0 - pair[0].0 >= LINE - 1e-9));
        assert!(places.iter().all(|(y, _)| *y <= 200.0));
        assert_eq!(places.iter().map(|(_, index)| *index).collect::<Vec<_>>(), [2, 0, 1, 3, 4]);
    }
}
