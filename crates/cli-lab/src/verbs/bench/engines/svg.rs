//! Draws the results: plots one below the other, or a row for each query.
//!
//! ```text
//!  latency  |        ___/   wait, execution, latency       share of arrivals ->
//!  memory   |  /\/\__/\     held, RSS                      seconds ->
//! ```

use numapilot_cli_kit::axis::{MIB, RatioAxis, extremes};
use numapilot_cli_kit::chart::{Axis, Chart, Labels, Page, Series};
use numapilot_cli_kit::svg::{Svg, text_width};
use numapilot_cli_kit::terminal;
use numapilot_engines::arrivals::Outcome;
use numapilot_engines::{Latencies, Watched, power};

use super::client_row::Row;

const MARGIN: f64 = 24.0;
const WIDTH: f64 = 720.0;
/// Width and height of a plot.
const PLOT: (f64, f64) = (642.0, 202.0);

/// The texts around a picture.
pub struct Caption {
    pub subtitle: String,
    pub disclaimer: &'static str,
}

fn axis(labels: Labels) -> Axis {
    Axis { labels, ..Axis::default() }
}

/// The latency distribution with its parts, wait and execution, and memory over time.
pub fn arrivals(caption: &Caption, outcome: &Outcome, watched: &Watched) -> String {
    let curve = |name: &str, latencies: &Latencies| Series {
        name: name.to_owned(),
        points: latencies.curve().into_iter().map(|(share, s)| (100.0 * share, s)).collect(),
        marked: false,
    };
    let latency = Chart {
        title: "Latency by share of the arrivals".to_owned(),
        x: axis(Labels::Number("%")),
        y: axis(Labels::Text(terminal::seconds)),
        series: vec![
            curve("latency", &outcome.latency),
            curve("execution", &outcome.execution),
            curve("wait", &outcome.wait),
        ],
        ..Chart::default()
    };
    let over_time = |name: &str, bytes: &dyn Fn(numapilot_observe::Footprint) -> u64| Series {
        name: name.to_owned(),
        points: watched
            .points
            .iter()
            .map(|p| (p.seconds, bytes(p.footprint) as f64 / MIB))
            .collect(),
        marked: false,
    };
    let memory = Chart {
        title: "Memory over time".to_owned(),
        x: axis(Labels::Text(terminal::seconds)),
        y: axis(Labels::Number("MiB")),
        series: vec![
            over_time("held (PSS without lazily freed pages)", &|f| f.held_bytes()),
            over_time("PSS", &|f| f.pss_bytes),
        ],
        ..Chart::default()
    };
    document("Arrivals", caption, &[latency, memory])
}

/// Throughput and latency by the number of clients.
pub fn clients(caption: &Caption, rows: &[Row]) -> String {
    let over_clients = |name: &str, of: &dyn Fn(&Row) -> Option<f64>| Series {
        name: name.to_owned(),
        points: rows.iter().filter_map(|r| Some((r.outcome.clients as f64, of(r)?))).collect(),
        marked: true,
    };
    let x = || Axis { name: "clients".to_owned(), ..axis(Labels::Whole) };
    let throughput = Chart {
        title: "Throughput".to_owned(),
        x: x(),
        y: axis(Labels::Number("/s")),
        series: vec![over_clients("queries/s", &|row| row.outcome.queries_per_second())],
        ..Chart::default()
    };
    let quantile = |share: f64| move |row: &Row| row.outcome.latency.quantile(share);
    let latency = Chart {
        title: "Latency".to_owned(),
        x: x(),
        y: axis(Labels::Text(terminal::seconds)),
        series: vec![over_clients("median", &quantile(0.5)), over_clients("p95", &quantile(0.95))],
        ..Chart::default()
    };
    document("Clients", caption, &[throughput, latency])
}

fn document(title: &str, caption: &Caption, charts: &[Chart]) -> String {
    let Caption { subtitle, disclaimer } = caption;
    Page { title, subtitle, foot: disclaimer, plot: PLOT, beside: false }.draw(charts)
}

/// Height of a row of [`queries`].
const ROW: f64 = 22.0;

/// The median of each query on a logarithmic axis, with a line from its minimum to its maximum.
pub fn queries(caption: &Caption, outcomes: &[power::Outcome]) -> String {
    let mut svg = Svg::default();
    let title = "Latency of each query";
    svg.text("strong large", MARGIN, 32.0, title);
    svg.text("dim", MARGIN, 54.0, &caption.subtitle);
    let top = 76.0;
    let bottom = top + ROW * outcomes.len() as f64;
    let walls = |outcome: &power::Outcome| -> Vec<f64> {
        outcome.runs.iter().map(|run| run.wall.as_secs_f64()).collect()
    };
    let all: Vec<f64> = outcomes.iter().flat_map(walls).collect();
    let (low, high) = if all.is_empty() { (0.5, 2.0) } else { extremes(&all) };
    // The axis is wide enough to have ticks even when all queries take equally long.
    let axis = RatioAxis::new(MARGIN + 44.0, WIDTH - 44.0, low.min(high / 20.0), high);
    for tick in axis.ticks() {
        svg.line("grid", (axis.x(tick), top), (axis.x(tick), bottom));
        svg.text("dim small middle", axis.x(tick), bottom + 16.0, &terminal::seconds(tick));
    }
    for (row, outcome) in outcomes.iter().enumerate() {
        let y = top + ROW * (row as f64 + 0.5);
        svg.text("text end", axis.left - 12.0, y + 4.5, &format!("Q{}", outcome.number));
        let walls = walls(outcome);
        let Some(median) = outcome.median_seconds(|run| Some(run.wall)) else {
            svg.text("dim small", axis.left, y + 4.0, "no time");
            continue;
        };
        let (least, most) = extremes(&walls);
        let line = format!("M{:.1} {y:.1}L{:.1} {y:.1}", axis.x(least), axis.x(most));
        svg.path(0, 3.0, &line);
        svg.dot(0, axis.x(median), y, 4.5);
    }
    svg.text("dim small", MARGIN, bottom + 40.0, caption.disclaimer);
    let width = (2.0 * MARGIN + WIDTH).max(2.0 * MARGIN + text_width(&caption.subtitle, 13.0));
    svg.finish(width, bottom + 56.0, title)
}
