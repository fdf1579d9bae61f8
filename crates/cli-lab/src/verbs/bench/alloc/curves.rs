//! Draws the resident set over time: a line for each kind of activity.
//!
//! ```text
//!  1.1 GiB |--.
//!          |   \____ a little activity
//!    70 MiB|- - - - - - -
//!          0 s         3 s
//! ```

use std::fmt::Write;

use numapilot_cli_kit::axis::{LinearAxis, MIB};
use numapilot_cli_kit::svg::{Svg, text_width};
use numapilot_cli_kit::terminal;
use numapilot_workloads::alloc::memory_return::{Activity, Curve};

const MARGIN: f64 = 20.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 72.0;
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 240.0;

/// Draws the picture and marks the size `below`.
pub fn draw(title: &str, curves: &[Curve], below: u64) -> String {
    let mut svg = Svg::default();
    svg.text("strong large", MARGIN, 30.0, title);
    let moments = || curves.iter().flat_map(|curve| &curve.moments);
    let highest = curves.iter().map(|curve| curve.full_rss_bytes).max().unwrap_or(1).max(below);
    let time = LinearAxis::new(moments().map(|moment| moment.seconds).fold(0.0, f64::max));
    let memory = LinearAxis::new(highest as f64 / MIB);
    let x = |seconds: f64| LEFT + WIDTH * time.share(seconds);
    let height = |mib: f64| TOP + HEIGHT * (1.0 - memory.share(mib));
    let y = |bytes: u64| height(bytes as f64 / MIB);
    for tick in memory.ticks() {
        let text = format!("{} MiB", memory.label(tick));
        svg.line("grid", (LEFT, height(tick)), (LEFT + WIDTH, height(tick)));
        svg.text("dim small end", LEFT - 8.0, height(tick) + 4.0, &text);
    }
    for tick in time.ticks() {
        let text = format!("{} s", time.label(tick));
        svg.text("dim small middle", x(tick), TOP + HEIGHT + 18.0, &text);
    }
    svg.line("axis", (LEFT, y(below)), (LEFT + WIDTH, y(below)));
    let label = format!("{} ", terminal::bytes(below));
    svg.text("dim small end", LEFT + WIDTH, y(below) - 5.0, &label);
    let mut legend = LEFT;
    for (kind, curve) in curves.iter().enumerate() {
        let mut path = format!("M{:.1} {:.1}", LEFT, y(curve.full_rss_bytes));
        for moment in &curve.moments {
            // Writing to a String cannot fail.
            let _ = write!(path, "L{:.1} {:.1}", x(moment.seconds), y(moment.rss_bytes));
        }
        svg.path(kind, 2.0, &path);
        let name = match curve.activity {
            Activity::Little => "a little activity",
            Activity::None => "none",
        };
        svg.dot(kind, legend, 52.0, 4.5);
        svg.text("dim small", legend + 10.0, 56.0, name);
        legend += 24.0 + text_width(name, 11.0);
    }
    let width = (LEFT + WIDTH).max(MARGIN + text_width(title, 18.0)) + MARGIN;
    svg.finish(width, TOP + HEIGHT + 36.0, title)
}
