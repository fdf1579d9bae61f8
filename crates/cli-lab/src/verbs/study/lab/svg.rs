//! Draws a curve (points joined by lines, and the knee as configured), or the distribution of errors.

use numapilot_cli_kit::chart::{Axis, Chart, Labels, Mark, On, Page, Series};
use numapilot_study::lab::{CurveResult, Errors};

/// Width and height of the plot.
const PLOT: (f64, f64) = (520.0, 300.0);

/// A claim with fewer figures has no line of its own.
const LEAST: usize = 10;

/// Draws which share of the figures is off by at most how much, in percent: of all, and of each
/// claim that has enough figures.
pub fn distribution(title: &str, errors: &[Errors]) -> String {
    let drawn = errors.iter().rev().filter(|e| e.claim.is_none() || e.figures >= LEAST);
    let series = drawn.map(|errors| {
        let share = |count: usize| 100.0 * count as f64 / errors.figures.max(1) as f64;
        let at = |(i, error): (usize, &f64)| (100.0 * error, share(i + 1));
        let name = errors.claim.as_deref().unwrap_or("all");
        Series {
            name: format!("{name} ({})", errors.figures),
            points: [(0.0, 0.0)]
                .into_iter()
                .chain(errors.sorted.iter().enumerate().map(at))
                .collect(),
            marked: false,
        }
    });
    let percent =
        |name: &str| Axis { name: name.to_owned(), most: 100.0, labels: Labels::Number(" %") };
    let chart = Chart {
        x: percent("error"),
        y: percent("figures with at most this error"),
        series: series.collect(),
        ..Chart::default()
    };
    Page { title, plot: PLOT, ..Page::default() }.draw(&[chart])
}

/// Draws a curve.
pub fn draw(curve: &CurveResult) -> String {
    let axis = |name: &String| Axis { name: name.clone(), ..Axis::default() };
    let points = curve.points.iter().map(|&[x, y]| (x, y)).collect();
    let knee = |value| Mark { on: On::X, value, label: format!("configured: {}", label(value)) };
    let chart = Chart {
        x: axis(&curve.axes[0]),
        y: axis(&curve.axes[1]),
        series: vec![Series { name: String::new(), points, marked: true }],
        marks: curve.knee.map(knee).into_iter().collect(),
        ..Chart::default()
    };
    Page { title: &curve.name, plot: PLOT, ..Page::default() }.draw(&[chart])
}

fn label(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
