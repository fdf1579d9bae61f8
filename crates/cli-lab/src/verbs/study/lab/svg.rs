//! Draws a curve: points joined by lines, and the knee as configured.

use numapilot_cli_kit::chart::{Axis, Chart, Mark, On, Page, Series};
use numapilot_study::lab::CurveResult;

/// Width and height of the plot.
const PLOT: (f64, f64) = (520.0, 300.0);

/// Draws the picture.
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
