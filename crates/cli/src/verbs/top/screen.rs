//! What `top` shows: lines of text, as wide and as many as there is room for.

use std::fmt::Write;

use numapilot_observe::Metric;

use super::state::{Known, Region, State};
use crate::terminal::{BAD, BOLD, DIM, GOOD, WARN, bytes, printable, seconds};

/// What stands for a figure that could not be had.
const NOT_SUPPORTED: &str = "<not supported>";

/// By what regions are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Samples,
    Size,
    Address,
}

impl Order {
    pub fn next(self) -> Self {
        match self {
            Self::Samples => Self::Size,
            Self::Size => Self::Address,
            Self::Address => Self::Samples,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Size => "size",
            Self::Address => "address",
        }
    }
}

/// The lines without what only a window needs: for scripts.
pub fn text(state: &State, order: Order) -> Vec<String> {
    let mut lines = vec![format!("{BOLD}numapilot top{BOLD:#}  {}", printable(&state.target))];
    lines.extend(figures(state));
    lines.push(String::new());
    lines.extend(nodes(state));
    lines.push(String::new());
    lines.extend(traffic(state));
    lines.push(String::new());
    lines.extend(regions(state, order));
    lines
}

/// A window of this size. What does not fit is left out, the last regions first.
pub fn window(
    state: &State,
    order: Order,
    paused: bool,
    (width, height): (u16, u16),
) -> Vec<String> {
    let room = usize::from(height).saturating_sub(1);
    let mut lines = text(state, order);
    if lines.len() > room {
        // Empty lines first.
        lines.retain(|line| !line.is_empty());
    }
    let left_out = lines.len().saturating_sub(room);
    lines.truncate(room);
    lines.resize(room, String::new());
    let mut keys = format!("q quit  p pause  s sort: {}", order.name());
    if paused {
        keys += "  PAUSED";
    }
    if left_out > 0 {
        let _ = write!(keys, "  {left_out} lines more");
    }
    lines.push(format!("{DIM}{keys}{DIM:#}"));
    lines.truncate(height.into());
    lines.iter().map(|line| clip(line, width.into())).collect()
}

/// The first characters of a line; escape codes have no width.
fn clip(line: &str, width: usize) -> String {
    let (mut clipped, mut shown, mut escape) = (String::new(), 0, false);
    for character in line.chars() {
        if escape || character == '\x1b' {
            escape = character != 'm';
            clipped.push(character);
        } else if shown < width {
            shown += 1;
            clipped.push(character);
        }
    }
    clipped
}

fn known(figure: Known<f64>, show: impl FnOnce(f64) -> String) -> String {
    figure.map_or_else(|_| NOT_SUPPORTED.to_owned(), show)
}

fn count(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.1}G", n / 1e9),
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn figures(state: &State) -> Vec<String> {
    let per_second = |metric| known(state.rate(metric), |n| format!("{}/s", count(n)));
    let figure = |metric, show: fn(f64) -> String| known(state.figure(metric), show);
    let moved = state.moved_pages.clone().map(|pages| pages / state.seconds());
    let rows: [[(&str, String); 3]; 4] = [
        [
            ("CPUs", figure(Metric::CpusUtilized, |n| format!("{n:.2}"))),
            ("memory", figure(Metric::RssBytes, |n| bytes(n as u64))),
            ("faults", per_second(Metric::MinorFaults)),
        ],
        [
            ("LAR", figure(Metric::LocalAccessRatio, percent)),
            ("imbalance", figure(Metric::ControllerImbalance, percent)),
            ("DRAM/µs", figure(Metric::Maptu, |n| format!("{n:.1}"))),
        ],
        [
            ("links", figure(Metric::LinkUsage, percent)),
            ("latency", figure(Metric::DramLatencySeconds, seconds)),
            ("migrations", per_second(Metric::CpuMigrations)),
        ],
        [
            ("moved", known(moved, |n| format!("{}/s", count(n)))),
            ("AutoNUMA", per_second(Metric::NumaPagesMigrated)),
            ("hints", per_second(Metric::NumaHintFaults)),
        ],
    ];
    let cell = |(name, value): &(&str, String)| {
        let dim = if value == NOT_SUPPORTED { DIM } else { BOLD };
        let space = 25usize.saturating_sub(name.chars().count() + 1 + value.chars().count());
        format!("{name} {dim}{value}{dim:#}{:space$}", "")
    };
    rows.iter()
        .map(|row| row.iter().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned())
        .collect()
}

fn nodes(state: &State) -> Vec<String> {
    let head = "NODE  CPUS      MEMORY        USED                  TARGET   LOCAL/s  OTHERS/s";
    let mut lines = vec![format!("{BOLD}{head}{BOLD:#}")];
    for node in &state.nodes {
        let share = match (node.used_bytes, node.memory_bytes) {
            (Some(used), memory @ 1..) => (used as f64 / memory as f64).clamp(0.0, 1.0),
            _ => 0.0,
        };
        let filled = (share * 10.0).round() as usize;
        let style = match share {
            s if s > 0.95 => BAD,
            s if s > 0.85 => WARN,
            _ => GOOD,
        };
        let or_unknown = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), bytes);
        let rate = |n: u64| count(n as f64 / state.seconds());
        lines.push(format!(
            "{:>4}  {:>4}  {:>10}  {:>10} {style}{:<10}{style:#} {:>11} {:>9} {:>9}",
            node.id.0,
            node.cpus,
            bytes(node.memory_bytes),
            or_unknown(node.used_bytes),
            "#".repeat(filled),
            node.target_bytes.map_or_else(|| "-".to_owned(), bytes),
            rate(node.allocated_local),
            rate(node.allocated_remote),
        ));
    }
    lines
}

fn traffic(state: &State) -> Vec<String> {
    let title = format!("{BOLD}TRAFFIC{BOLD:#}");
    let accesses = match &state.traffic {
        Err(why) => return vec![format!("{title}  {NOT_SUPPORTED}: {why}")],
        Ok(accesses) => accesses,
    };
    let mut head = title;
    for node in &state.nodes {
        let _ = write!(head, " {:>7}", node.id.0);
    }
    // Behind the columns: where these need all of a line, it is left out.
    head += "  DRAM accesses/s of row to column";
    let mut lines = vec![head];
    let indent = "TRAFFIC".len();
    for (from, to) in state.nodes.iter().zip(accesses) {
        let mut line = format!("{:>indent$}", from.id.0);
        for accesses in to {
            let _ = write!(line, " {:>7}", count(*accesses as f64 / state.accessed_seconds()));
        }
        lines.push(line);
    }
    if let Ok(links) = &state.links {
        let links = links.iter().map(|link| format!("{} {}", link.between, percent(link.usage)));
        lines.push(format!("links  {}", links.collect::<Vec<_>>().join("  ")));
    }
    lines
}

fn regions(state: &State, order: Order) -> Vec<String> {
    let title = format!("{BOLD}HOT REGIONS{BOLD:#}");
    let mut regions: Vec<&Region> = match &state.regions {
        Err(why) => return vec![format!("{title}  {NOT_SUPPORTED}: {why}")],
        Ok(regions) if regions.is_empty() => {
            return vec![format!("{title}  nothing was sampled yet")];
        }
        Ok(regions) => regions.iter().collect(),
    };
    regions.sort_by(|a, b| match order {
        Order::Samples => b.total().total_cmp(&a.total()),
        Order::Size => b.bytes.cmp(&a.bytes),
        Order::Address => a.start.cmp(&b.start),
    });
    let mut lines = vec![format!("{title}      SIZE  SAMPLES  BY NODE")];
    for region in regions {
        let total = region.total();
        let mut nodes = region.samples.clone();
        nodes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let share = nodes.iter().map(|(node, n)| format!("{node}: {}", percent(n / total)));
        lines.push(format!(
            "{:012x} {:>9} {:>8}  {}  {}",
            region.start,
            bytes(region.bytes),
            count(total),
            share.collect::<Vec<_>>().join(", "),
            printable(&region.name),
        ));
    }
    lines
}

#[cfg(test)]
mod tests;
