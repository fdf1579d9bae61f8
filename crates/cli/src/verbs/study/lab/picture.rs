//! A curve as a picture: points joined by lines, and where the curve should turn.

use numapilot_study::lab::CurveResult;

use crate::svg::Svg;

const LEFT: f64 = 78.0;
const TOP: f64 = 64.0;
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 24.0;
const RADIUS: f64 = 4.0;
/// Steps of an axis, about.
const STEPS: f64 = 6.0;

/// The picture.
pub fn draw(curve: &CurveResult) -> String {
    let most = |axis: usize| curve.points.iter().map(|point| point[axis]).fold(0.0, f64::max);
    let steps = [most(0).max(curve.knee.unwrap_or(0.0)), most(1)].map(|most| (step(most), most));
    // Ends of the axes: the first step beyond all points.
    let [x_end, y_end] = steps.map(|(step, most)| ((most / step).floor() + 1.0) * step);
    let x = |value: f64| LEFT + WIDTH * value / x_end;
    let y = |value: f64| TOP + HEIGHT * (1.0 - value / y_end);
    let mut svg = Svg::default();
    svg.text("strong large", MARGIN, 30.0, &curve.name);
    svg.text("dim small", LEFT - 40.0, TOP - 12.0, &curve.axes[1]);
    let bottom = TOP + HEIGHT;
    for tick in ticks(steps[0].0, x_end) {
        svg.line("grid", (x(tick), TOP), (x(tick), bottom));
        svg.text("dim small middle", x(tick), bottom + 18.0, &label(tick));
    }
    for tick in ticks(steps[1].0, y_end) {
        svg.line("grid", (LEFT, y(tick)), (LEFT + WIDTH, y(tick)));
        svg.text("dim small end", LEFT - 8.0, y(tick) + 4.0, &label(tick));
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

/// A round step: 1, 2 or 5 times a power of ten.
fn step(most: f64) -> f64 {
    let rough = most.max(f64::MIN_POSITIVE) / STEPS;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= rough).unwrap_or(power)
}

fn ticks(step: f64, end: f64) -> impl Iterator<Item = f64> {
    (0..).map(move |i| f64::from(i) * step).take_while(move |tick| *tick <= end * 1.0001)
}

fn label(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps() {
        assert_eq!([step(12.8), step(95.0), step(0.3)], [5.0, 20.0, 0.05]);
        assert_eq!(ticks(5.0, 15.0).map(label).collect::<Vec<_>>(), ["0", "5", "10", "15"]);
    }
}
