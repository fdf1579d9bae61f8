//! Draws numbers by a numeric factor, and lists of points, as lines.

use numapilot_cli_kit::axis::LinearAxis;
use numapilot_cli_kit::svg::{Svg, text_width};
use numapilot_study::experiment::Point;
use serde_json::Value;

use super::{levels, name};

const LEFT: f64 = 76.0;
const TOP: f64 = 40.0;
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 220.0;
const MARGIN: f64 = 20.0;
const LEGEND: f64 = 20.0;
/// With fewer positions on the axis, bars are used instead.
const LEAST: usize = 3;

/// A line.
pub struct Line {
    name: String,
    points: Vec<[f64; 2]>,
}

impl Line {
    /// Makes a line from a list of pairs.
    pub fn of_points(name: String, value: &Value) -> Self {
        let number = |pair: &Value, axis: usize| pair.get(axis)?.as_f64();
        let pair = |pair: &Value| Some([number(pair, 0)?, number(pair, 1)?]);
        let points = value.as_array().into_iter().flatten().filter_map(pair).collect();
        Self { name, points }
    }
}

/// One line for each combination of the other factors, if the levels of `along` are numbers.
pub fn numeric(along: &str, points: &[Point]) -> Option<Vec<Line>> {
    let levels = levels(along, points);
    if levels.len() < LEAST || levels.iter().any(|level| level.parse::<f64>().is_err()) {
        return None;
    }
    let mut lines: Vec<Line> = Vec::new();
    for point in points {
        let Some(estimate) = &point.estimate else { continue };
        let at = [point.at.get(along)?.parse().ok()?, estimate.value];
        let name = name(&point.at, Some(along));
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(at),
            None => lines.push(Line { name, points: vec![at] }),
        }
    }
    (!lines.is_empty()).then_some(lines)
}

/// Draws the picture.
pub fn draw(x_name: &str, y_name: &str, lines: &[Line]) -> String {
    let axis = |axis: usize| {
        let values = lines.iter().flat_map(|line| line.points.iter().map(move |p| p[axis]));
        LinearAxis::new(values.fold(0.0, f64::max))
    };
    let (across, up) = (axis(0), axis(1));
    let x = |value: f64| LEFT + WIDTH * across.share(value);
    let y = |value: f64| TOP + HEIGHT * (1.0 - up.share(value));
    let mut svg = Svg::default();
    svg.text("dim small", MARGIN, TOP - 16.0, y_name);
    for tick in up.ticks() {
        svg.line("grid", (LEFT, y(tick)), (LEFT + WIDTH, y(tick)));
        svg.text("dim small end", LEFT - 8.0, y(tick) + 4.0, &up.label(tick));
    }
    for tick in across.ticks() {
        svg.text("dim small middle", x(tick), TOP + HEIGHT + 18.0, &across.label(tick));
    }
    svg.text("dim small middle", LEFT + WIDTH / 2.0, TOP + HEIGHT + 36.0, x_name);
    let (mut at, mut legend) = (LEFT, TOP + HEIGHT + 36.0 + LEGEND);
    for (kind, line) in lines.iter().enumerate() {
        let place = |p: &[f64; 2]| format!("{:.1} {:.1}", x(p[0]), y(p[1]));
        let path: Vec<String> = line.points.iter().map(place).collect();
        if path.len() > 1 {
            svg.path(kind, 2.0, &format!("M{}", path.join("L")));
        }
        if path.len() < 30 {
            line.points.iter().for_each(|p| svg.dot(kind, x(p[0]), y(p[1]), 3.5));
        }
        if line.name.is_empty() {
            continue;
        }
        let width = 30.0 + text_width(&line.name, 13.0);
        if at + width > LEFT + WIDTH && at > LEFT {
            (at, legend) = (LEFT, legend + LEGEND);
        }
        svg.dot(kind, at, legend - 4.0, 4.5);
        svg.text("text", at + 10.0, legend, &line.name);
        at += width;
    }
    svg.inline(LEFT + WIDTH + 2.0 * MARGIN, legend + MARGIN, y_name)
}
