//! Draws the results: the means as dots on a logarithmic axis, and below them the CPU time of every
//! test.
//!
//! ```text
//!  snmalloc    o     x    |            o CPU time, x peak RSS
//!  mimalloc               ox
//!            0.5        1.0
//!              snmalloc  mimalloc
//!  larson        0.98      1.00
//! ```

use numapilot_cli_kit::axis::{RatioAxis, extremes};
use numapilot_cli_kit::svg::{Area, Svg, text_width};
use numapilot_cli_kit::terminal::plural;
use numapilot_study::results::{Mean, Measure, Results};

const MARGIN: f64 = 20.0;
const TOP: f64 = 84.0;
const ROW: f64 = 24.0;
const PLOT: f64 = 440.0;
const RADIUS: f64 = 4.5;
/// Height of a cell of the table.
const CELL: f64 = 22.0;
/// Names and values of the means that are drawn.
const DRAWN: [(&str, Measure); 3] =
    [("CPU time", Measure::Cpu), ("wall time", Measure::Wall), ("peak RSS", Measure::Rss)];
/// The ratio from which a cell of the table has full colour.
const STRONGEST: f64 = 3.0;

/// Draws the picture.
pub fn draw(results: &Results, rounds: u32) -> String {
    let mut svg = Svg::default();
    let title = format!("Allocators, as ratios to {}", results.reference);
    svg.text("strong large", MARGIN, 30.0, &title);
    let tests = results.tests.len();
    let rounds = plural(rounds, "round");
    let subtitle = format!("geometric means over {tests} tests of {rounds} each; left is better");
    svg.text("dim", MARGIN, 52.0, &subtitle);
    let plot_end = means(&mut svg, results);
    let (table_width, foot) = cells(&mut svg, results, plot_end + 62.0);
    let width = (MARGIN + label_width(results) + 16.0 + PLOT + MARGIN)
        .max(table_width)
        .max(2.0 * MARGIN + text_width(&subtitle, 13.0));
    svg.finish(width, foot, &title)
}

/// Space for the names of tests and allocators.
fn label_width(results: &Results) -> f64 {
    let tests = results.tests.iter().map(|row| row.test.as_str());
    let names = results.allocators.iter().map(|allocator| allocator.name.as_str());
    tests.chain(names).map(|name| text_width(name, 13.0)).fold(90.0, f64::max)
}

/// Draws the means, best CPU time first, and returns their lower end.
fn means(svg: &mut Svg, results: &Results) -> f64 {
    let mut drawn: Vec<&Mean> = results.geometric_means.iter().collect();
    drawn.retain(|mean| mean.ratios.is_some());
    let cpu = |mean: &Mean| mean.ratios.map_or(f64::INFINITY, |ratios| ratios.cpu);
    drawn.sort_by(|a, b| cpu(a).total_cmp(&cpu(b)));
    let ratios = drawn.iter().filter_map(|mean| mean.ratios);
    let values: Vec<f64> =
        ratios.flat_map(|r| DRAWN.map(|(_, measure)| r.of(measure))).chain([0.95, 1.05]).collect();
    let (low, high) = extremes(&values);
    let axis = RatioAxis::new(MARGIN + label_width(results) + 16.0, PLOT, low, high);
    let bottom = TOP + ROW * drawn.len() as f64;
    let mut legend = axis.left;
    for (kind, (name, _)) in DRAWN.iter().enumerate() {
        svg.dot(kind, legend, 70.0, RADIUS);
        svg.text("dim small", legend + 10.0, 74.0, name);
        legend += 24.0 + text_width(name, 11.0);
    }
    for tick in axis.ticks() {
        svg.line("grid", (axis.x(tick), TOP), (axis.x(tick), bottom));
        svg.text("dim small middle", axis.x(tick), bottom + 16.0, &axis.label(tick));
    }
    svg.line("axis", (axis.x(1.0), TOP), (axis.x(1.0), bottom));
    for (row, mean) in drawn.iter().enumerate() {
        let y = TOP + ROW * (row as f64 + 0.5);
        svg.text("text end", axis.left - 16.0, y + 4.5, &mean.allocator);
        let Some(ratios) = mean.ratios else { continue };
        for (kind, (_, measure)) in DRAWN.iter().enumerate().rev() {
            svg.dot(kind, axis.x(ratios.of(*measure)), y, RADIUS);
        }
    }
    bottom
}

/// Draws the CPU time by test and allocator from `top` down, and returns the right and lower ends.
fn cells(svg: &mut Svg, results: &Results, top: f64) -> (f64, f64) {
    let left = MARGIN + label_width(results) + 16.0;
    let names = results.allocators.iter().map(|a| text_width(&a.name, 11.0));
    let width = names.fold(44.0, f64::max) + 8.0;
    svg.text("strong", MARGIN, top - 8.0, "CPU time");
    for (column, allocator) in results.allocators.iter().enumerate() {
        let x = left + width * (column as f64 + 0.5);
        svg.text("dim small middle", x, top - 8.0, &allocator.name);
    }
    for (row, test) in results.tests.iter().enumerate() {
        let y = top + CELL * row as f64;
        svg.text("text end", left - 16.0, y + 15.5, &test.test);
        for (column, cell) in test.results.iter().enumerate() {
            let x = left + width * column as f64;
            let area = Area { x, y, width: width - 2.0, height: CELL - 2.0 };
            let (text, share) = match (&cell.ratios, &cell.failure) {
                (Some(r), _) => (format!("{:.2}", r.cpu), r.cpu.ln() / STRONGEST.ln()),
                (None, Some(_)) => ("failed".to_owned(), 1.0),
                (None, None) => ("-".to_owned(), 0.0),
            };
            svg.heat(area, 0.0, share);
            svg.text("text small middle", x + width / 2.0 - 1.0, y + 14.5, &text);
        }
    }
    let bottom = top + CELL * results.tests.len() as f64;
    let foot = format!("the stronger, the slower; strongest from {STRONGEST} times on");
    svg.text("dim small", left, bottom + 18.0, &foot);
    let table = left + width * results.allocators.len() as f64;
    (table.max(left + text_width(&foot, 11.0)) + MARGIN, bottom + 36.0)
}
