//! Draws load as a line and cores as bars, as in prt-pro figure 2b.

use numapilot_cli_kit::chart::{Axis, Bar, Chart, Labels, Page, Series};

/// Width and height of a run's plot.
const PLOT: (f64, f64) = (720.0, 180.0);

/// A tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Threads that ran or wanted to run.
    pub load: f64,
    /// Cores that the target had.
    pub cores: u32,
}

/// One run.
pub struct Panel<'a> {
    pub title: String,
    pub points: &'a [Point],
}

/// Draws runs below each other, on the same scale.
pub fn draw(title: &str, all: u32, tick_s: f64, panels: &[Panel<'_>]) -> String {
    let load =
        panels.iter().flat_map(|panel| panel.points).map(|point| point.load).fold(0.0, f64::max);
    // Values far above the number of cores are drawn at the top.
    let top = f64::from(all.max(1)).max(load.min(f64::from(all) * 1.5));
    let charts: Vec<Chart> = panels.iter().map(|panel| chart(panel, top, tick_s)).collect();
    let subtitle = "bars: cores that the program has; line: threads that run or want to";
    Page { title, subtitle, plot: PLOT, ..Page::default() }.draw(&charts)
}

fn chart(panel: &Panel<'_>, top: f64, tick_s: f64) -> Chart {
    let mut bars = Vec::new();
    let mut line = Vec::new();
    let mut start = 0;
    for (at, point) in panel.points.iter().enumerate() {
        // Neighbours with equal cores are one bar, so thousands of ticks make a small file.
        if panel.points.get(at + 1).is_none_or(|next| next.cores != point.cores) {
            let (from, to) = (start as f64 * tick_s, (at + 1) as f64 * tick_s);
            bars.push(Bar { from, to, height: f64::from(point.cores) });
            start = at + 1;
        }
        line.push(((at as f64 + 0.5) * tick_s, point.load.min(top)));
    }
    let most = panel.points.len() as f64 * tick_s;
    Chart {
        title: panel.title.clone(),
        x: Axis { most, labels: Labels::Number("s"), ..Axis::default() },
        y: Axis { most: top, labels: Labels::Whole, ..Axis::default() },
        series: vec![Series { name: String::new(), points: line, marked: false }],
        bars,
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_bar() {
        let point = |cores| Point { load: 1.5, cores };
        let points = [point(1), point(1), point(4), point(4)];
        let panel = Panel { title: "a".to_owned(), points: &points };
        let svg = draw("title", 4, 0.1, &[panel]);
        assert_eq!(svg.matches("class=\"heat\"").count(), 2);
        assert!(
            draw("empty", 4, 0.1, &[Panel { title: "b".to_owned(), points: &[] }])
                .contains("</svg>")
        );
    }
}
