//! Draws the resident set over time: a line for each kind of activity.
//!
//! ```text
//!  1.1 GiB |--.
//!          |   \____ a little activity
//!    70 MiB|- - - - - - -
//!          0 s         3 s
//! ```

use numapilot_cli_kit::axis::MIB;
use numapilot_cli_kit::chart::{Axis, Chart, Labels, Mark, On, Page, Series};
use numapilot_cli_kit::terminal;
use numapilot_workloads::alloc::memory_return::{Activity, Curve};

/// Width and height of the plot.
const PLOT: (f64, f64) = (520.0, 240.0);

/// Draws the picture and marks the size `below`.
pub fn draw(title: &str, curves: &[Curve], below: u64) -> String {
    let mib = |bytes: u64| bytes as f64 / MIB;
    let line = |curve: &Curve| {
        let moments = curve.moments.iter().map(|moment| (moment.seconds, mib(moment.rss_bytes)));
        let name = match curve.activity {
            Activity::Little => "a little activity",
            Activity::None => "none",
        };
        let points = std::iter::once((0.0, mib(curve.full_rss_bytes))).chain(moments).collect();
        Series { name: name.to_owned(), points, marked: false }
    };
    let chart = Chart {
        x: Axis { labels: Labels::Number("s"), ..Axis::default() },
        y: Axis { labels: Labels::Number("MiB"), ..Axis::default() },
        series: curves.iter().map(line).collect(),
        marks: vec![Mark { on: On::Y, value: mib(below), label: terminal::bytes(below) }],
        ..Chart::default()
    };
    Page { title, plot: PLOT, ..Page::default() }.draw(&[chart])
}
