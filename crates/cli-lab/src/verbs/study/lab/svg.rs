//! Draws a curve: points joined by lines, and the knee as configured.

use numapilot_cli_kit::axis::LinearAxis;
use numapilot_cli_kit::svg::Svg;
use numapilot_study::lab::CurveResult;

const LEFT: f64 = 78.0;
const TOP: f64 = 64.0;
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 24.0;
const RADIUS: f64 = 4.0;

/// Draws the picture.
pub fn draw(curve: &CurveResult) -> String {
    let most = |axis: usize| curve.points.iter().map(|point| point[axis]).fold(0.0, f64::max);
    let across = LinearAxis::new(most(0).max(curve.knee.unwrap_or(0.0)));
    let up = LinearAxis::new(most(1));
    let x = |value: f64| LEFT + WIDTH * across.share(value);
    let y = |value: f64| TOP + HEIGHT * (1.0 - up.share(value));
    let mut svg = Svg::default();
    svg.text("strong large", MARGIN, 30.0, &curve.name);
    svg.text("dim small", LEFT - 40.0, TOP - 12.0, &curve.axes[1]);
    let bottom = TOP + HEIGHT;
    for tick in across.ticks() {
        svg.line("grid", (x(tick), TOP), (x(tick), bottom));
        svg.text("dim small middle", x(tick), bottom + 18.0, &across.label(tick));
    }
    for tick in up.ticks() {
        svg.line("grid", (LEFT, y(tick)), (LEFT + WIDTH, y(tick)));
        svg.text("dim small end", LEFT - 8.0, y(tick) + 4.0, &up.label(tick));
    }
    svg.text("dim small middle", LEFT + WIDTH / 2.0, bottom + 40.0, &curve.axes[0]);
    if let Some(knee) = curve.knee {
        svg.line("axis", (x(knee), TOP), (x(knee), bottom));
        let text = format!("configured: {}", label(knee));
        svg.text("dim small end", x(knee) - 6.0, TOP + 14.0, &text);
    }
    let at = |point: &[f64; 2]| format!("{:.1} {:.1}", x(point[0]), y(point[1]));
    let path: Vec<String> = curve.points.iter().map(at).collect();
    if path.len() > 1 {
        svg.path(0, 2.0, &format!("M{}", path.join("L")));
    }
    for point in &curve.points {
        svg.dot(0, x(point[0]), y(point[1]), RADIUS);
    }
    svg.finish(LEFT + WIDTH + MARGIN, bottom + 40.0 + MARGIN, &curve.name)
}

fn label(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
