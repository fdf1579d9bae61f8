//! Draws numbers by a numeric factor, and lists of points, as lines.

use numapilot_cli_kit::chart::{Axis, Chart, Page, Series};
use numapilot_study::experiment::Point;
use serde_json::Value;

use super::{levels, name};

/// Width and height of the plot.
const PLOT: (f64, f64) = (480.0, 220.0);
/// With fewer positions on the axis, bars are used instead.
const LEAST: usize = 3;
/// Lines with fewer points have dots.
const DOTS: usize = 30;

/// A line.
pub struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

impl Line {
    /// Makes a line from a list of pairs.
    pub fn of_points(name: String, value: &Value) -> Self {
        let number = |pair: &Value, axis: usize| pair.get(axis)?.as_f64();
        let pair = |pair: &Value| Some((number(pair, 0)?, number(pair, 1)?));
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
        let at = (point.at.get(along)?.parse().ok()?, estimate.value);
        let name = name(&point.at, Some(along));
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(at),
            None => lines.push(Line { name, points: vec![at] }),
        }
    }
    (!lines.is_empty()).then_some(lines)
}

/// Draws the picture.
pub fn draw(x_name: &str, y_name: &str, lines: Vec<Line>) -> String {
    let axis = |name: &str| Axis { name: name.to_owned(), ..Axis::default() };
    let series = |Line { name, points }: Line| {
        let marked = points.len() < DOTS;
        Series { name, points, marked }
    };
    let chart = Chart {
        x: axis(x_name),
        y: axis(y_name),
        series: lines.into_iter().map(series).collect(),
        ..Chart::default()
    };
    Page::inline(&chart, PLOT, y_name)
}
