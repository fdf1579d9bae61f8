//! Draws load as a line and cores as bars, as in prt-pro figure 2b.

use numapilot_cli_kit::axis::LinearAxis;
use numapilot_cli_kit::svg::{Area, Svg};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 78.0;
const GAP: f64 = 74.0;
const MARGIN: f64 = 24.0;

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
    let mut svg = Svg::default();
    svg.text("strong large", MARGIN, 30.0, title);
    svg.text(
        "dim",
        MARGIN,
        52.0,
        "bars: cores that the program has; line: threads that run or want to",
    );
    let load =
        panels.iter().flat_map(|panel| panel.points).map(|point| point.load).fold(0.0, f64::max);
    // Values far above the number of cores are drawn at the top.
    let top = f64::from(all.max(1)).max(load.min(f64::from(all) * 1.5));
    let mut y = TOP;
    for panel in panels {
        draw_panel(&mut svg, panel, top, tick_s, y);
        y += HEIGHT + GAP;
    }
    svg.finish(LEFT + WIDTH + MARGIN, y - GAP + 52.0, title)
}

fn draw_panel(svg: &mut Svg, panel: &Panel<'_>, top: f64, tick_s: f64, y: f64) {
    let bottom = y + 14.0 + HEIGHT;
    let cores = LinearAxis::new(top);
    let height = |value: f64| cores.share(value).clamp(0.0, 1.0) * HEIGHT;
    svg.text("strong", LEFT, y, &panel.title);
    // There are no ticks at half cores.
    for tick in cores.ticks().filter(|tick| tick.fract() == 0.0) {
        let line = bottom - height(tick);
        svg.line("grid", (LEFT, line), (LEFT + WIDTH, line));
        svg.text("dim small end", LEFT - 8.0, line + 4.0, &format!("{tick:.0}"));
    }
    let time = LinearAxis::new(panel.points.len() as f64 * tick_s);
    let wide = WIDTH * time.share(tick_s);
    let mut path = String::new();
    let mut start = 0;
    for (at, point) in panel.points.iter().enumerate() {
        // Neighbours with equal cores are one bar, so thousands of ticks make a small file.
        let ends = panel.points.get(at + 1).is_none_or(|next| next.cores != point.cores);
        if ends {
            let tall = height(f64::from(point.cores));
            let width = wide * (at + 1 - start) as f64;
            let x = LEFT + wide * start as f64;
            svg.heat(Area { x, y: bottom - tall, width, height: tall }, 0.0, 0.5);
            start = at + 1;
        }
        let x = LEFT + wide * (at as f64 + 0.5);
        let command = if at == 0 { "M" } else { "L" };
        path += &format!("{command}{x:.1} {:.1}", bottom - height(point.load));
    }
    svg.path(0, 1.8, &path);
    svg.line("axis", (LEFT, bottom), (LEFT + WIDTH, bottom));
    for tick in time.ticks() {
        let label = format!("{} s", time.label(tick));
        svg.text("dim small middle", LEFT + WIDTH * time.share(tick), bottom + 18.0, &label);
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
