//! A plot of lines over two linear axes that begin at 0.

use numapilot_cli_kit::axis::LinearAxis;
use numapilot_cli_kit::svg::{Area, Svg, text_width};

/// Room left of the plot for the labels of its axis.
const LABELS: f64 = 78.0;
/// Room above for title and legend, and below for the labels.
const ABOVE: f64 = 44.0;
const BELOW: f64 = 24.0;

/// Lines over the same axes.
pub struct Plot<'a> {
    pub title: &'static str,
    /// What is written at a place of the horizontal axis.
    pub x: &'a dyn Fn(f64) -> String,
    /// Likewise of the vertical one.
    pub y: &'a dyn Fn(f64) -> String,
    pub series: Vec<Series>,
}

/// A line.
pub struct Series {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
    /// Whether each point gets a dot.
    pub marked: bool,
}

impl Plot<'_> {
    /// Draws it with its upper left corner at `at`.
    pub fn draw(&self, svg: &mut Svg, at: (f64, f64), size: (f64, f64)) {
        let area = Area {
            x: at.0 + LABELS,
            y: at.1 + ABOVE,
            width: size.0 - LABELS,
            height: size.1 - ABOVE - BELOW,
        };
        svg.text("strong", at.0, at.1 + 14.0, self.title);
        let mut legend = area.x;
        for (kind, series) in self.series.iter().enumerate() {
            svg.dot(kind, legend + 4.0, at.1 + 28.0, 4.5);
            svg.text("dim small", legend + 14.0, at.1 + 32.0, series.name);
            legend += 34.0 + text_width(series.name, 11.0);
        }
        let points = || self.series.iter().flat_map(|series| &series.points);
        if points().next().is_none() {
            svg.text("dim", area.x, area.y + area.height / 2.0, "no figures");
            return;
        }
        let largest = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        let across = LinearAxis::new(largest(|point| point.0));
        let up = LinearAxis::new(largest(|point| point.1));
        let place = |(x, y): (f64, f64)| {
            (area.x + area.width * across.share(x), area.y + area.height * (1.0 - up.share(y)))
        };
        for tick in up.ticks() {
            let y = place((0.0, tick)).1;
            svg.line("grid", (area.x, y), (area.x + area.width, y));
            svg.text("dim small end", area.x - 8.0, y + 4.0, &(self.y)(tick));
        }
        for tick in across.ticks() {
            let (x, bottom) = place((tick, 0.0));
            svg.line("grid", (x, area.y), (x, bottom));
            svg.text("dim small middle", x, bottom + 16.0, &(self.x)(tick));
        }
        for (kind, series) in self.series.iter().enumerate().rev() {
            let places: Vec<(f64, f64)> = series.points.iter().map(|&point| place(point)).collect();
            let path = places.iter().enumerate().map(|(at, (x, y))| {
                let command = if at == 0 { 'M' } else { 'L' };
                format!("{command}{x:.1} {y:.1}")
            });
            svg.path(kind, 2.0, &path.collect::<Vec<_>>().join(" "));
            for (x, y) in places.into_iter().filter(|_| series.marked) {
                svg.dot(kind, x, y, 4.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_said() {
        let mut svg = Svg::default();
        let label = |x: f64| x.to_string();
        let plot = Plot { title: "T", x: &label, y: &label, series: Vec::new() };
        plot.draw(&mut svg, (0.0, 0.0), (500.0, 200.0));
        assert!(svg.finish(500.0, 200.0, "t").contains("no figures"));
    }
}
