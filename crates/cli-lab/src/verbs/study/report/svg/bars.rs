//! Draws numbers as grouped bars, with their intervals.

use numapilot_cli_kit::svg::{Area, Svg, text_width};
use numapilot_study::experiment::Point;

use super::{levels, name};
use crate::verbs::study::short;

const ROW: f64 = 22.0;
const BAR: f64 = 13.0;
const MARGIN: f64 = 16.0;
const WIDTH: f64 = 360.0;
/// Space for the number to the right of a bar.
const NUMBER: f64 = 76.0;

/// Draws a group for every level of `along`, with a bar for each combination of the other factors.
pub fn draw(along: Option<&str>, unit: &str, points: &[Point]) -> String {
    let groups: Vec<Option<&str>> = match along {
        None => vec![None],
        Some(factor) => levels(factor, points).into_iter().map(Some).collect(),
    };
    let mut series: Vec<String> = Vec::new();
    for point in points {
        let name = name(&point.at, along);
        if !series.contains(&name) {
            series.push(name);
        }
    }
    let labels = series.iter().map(|label| text_width(label, 13.0));
    let left = MARGIN + labels.fold(40.0, f64::max) + 8.0;
    let top = |point: &Point| {
        point.estimate.map_or(0.0, |e| e.interval.map_or(e.value, |i| i[1]).max(e.value))
    };
    let most = points.iter().map(top).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| left + WIDTH * value / most;
    let mut svg = Svg::default();
    svg.text("dim small", left, 20.0, unit);
    let mut y = 30.0;
    for group in groups {
        if let Some(group) = group {
            // A level such as `16` needs the name of its factor.
            let is_number = group.parse::<f64>().is_ok();
            let factor = along.filter(|_| is_number).map_or(String::new(), |f| format!("{f} "));
            svg.text("strong", MARGIN, y + 14.0, &format!("{factor}{group}"));
            y += ROW;
        }
        let in_group = |point: &&Point| {
            group.is_none_or(|g| along.and_then(|a| point.at.get(a)).is_some_and(|l| l == g))
        };
        for point in points.iter().filter(in_group) {
            let label = name(&point.at, along);
            let class = series.iter().position(|s| *s == label).unwrap_or(0) % 8;
            svg.text("text end", left - 8.0, y + 14.0, &label);
            match &point.estimate {
                None => {
                    let why = point.missing.as_deref().unwrap_or("not run");
                    let why: String = why.chars().take(60).collect();
                    svg.text("dim small", left, y + 14.0, &why);
                }
                Some(estimate) => {
                    let area =
                        Area { x: left, y: y + 4.0, width: x(estimate.value) - left, height: BAR };
                    svg.rectangle(&format!("dot{class}"), area, 2.0);
                    let mut end = x(estimate.value);
                    if let Some([low, high]) = estimate.interval {
                        let middle = y + 4.0 + BAR / 2.0;
                        svg.line("axis", (x(low), middle), (x(high), middle));
                        end = end.max(x(high));
                    }
                    svg.text("text small", end + 6.0, y + 14.0, &short(estimate.value));
                }
            }
            y += ROW;
        }
    }
    svg.inline(left + WIDTH + NUMBER, y + MARGIN, unit)
}
