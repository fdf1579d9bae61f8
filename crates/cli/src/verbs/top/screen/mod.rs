//! Formats the screen of `top`: lines of text, as wide and as many as there is room for.

use std::fmt::Write;

use numapilot_cli_kit::terminal::{
    BAD, BOLD, DIM, GOOD, WARN, bytes, plural, printable, seconds, wrap,
};
use numapilot_observe::Metric;

use super::state::{Known, Link, Node, Region, State};

/// Stands for a missing figure.
const NOT_SUPPORTED: &str = "<not supported>";

/// Width at which text without a window is wrapped: the least that a terminal has.
const WIDTH: usize = 80;

/// The order of regions.
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

/// The lines for scripts, without the parts for a window. Tables have all of their columns.
pub fn text(state: &State, order: Order) -> Vec<String> {
    drawn(state, order, WIDTH, usize::MAX).lines
}

/// The lines for a window of this size. Lines that do not fit are left out from the end, and so are
/// the least important columns of tables. The last line tells how many.
pub fn window(
    state: &State,
    order: Order,
    paused: bool,
    (width, height): (u16, u16),
) -> Vec<String> {
    let width = usize::from(width);
    let room = usize::from(height).saturating_sub(1);
    let Screen { mut lines, columns_left_out, .. } = drawn(state, order, width, width);
    if lines.len() > room {
        // Empty lines first.
        lines.retain(|line| !line.is_empty());
    }
    let left_out = [(lines.len().saturating_sub(room), "line"), (columns_left_out, "column")];
    lines.truncate(room);
    lines.resize(room, String::new());
    lines.push(format!("{DIM}{}{DIM:#}", keys(order, paused, left_out, width)));
    lines.truncate(height.into());
    lines.iter().map(|line| clip(line, width)).collect()
}

/// The last line: keys, and notices about the screen. If not all of it fits, the notices come
/// first.
fn keys(order: Order, paused: bool, left_out: [(usize, &str); 2], width: usize) -> String {
    let left_out = left_out.iter().filter(|(count, _)| *count > 0);
    let left_out: Vec<String> = left_out.map(|(count, what)| plural(*count, what)).collect();
    let keys = ["q quit", "p pause", &format!("s sort: {}", order.name())].map(str::to_owned);
    let mut notes = Vec::new();
    if paused {
        notes.push("PAUSED".to_owned());
    }
    if !left_out.is_empty() {
        notes.push(format!("{} more", left_out.join(", ")));
    }
    let all = [&keys[..], &notes].concat().join("  ");
    if all.chars().count() <= width { all } else { [&notes[..], &keys].concat().join("  ") }
}

/// Shortens a line, with a mark if characters are left out. Escape codes have no width.
fn clip(line: &str, width: usize) -> String {
    let overflows = visible(line) > width;
    let kept = if overflows { width.saturating_sub(1) } else { width };
    let (mut clipped, mut shown, mut escape) = (String::new(), 0, false);
    for character in line.chars() {
        if escape || character == '\x1b' {
            escape = character != 'm';
            clipped.push(character);
        } else if shown < kept {
            shown += 1;
            clipped.push(character);
        } else if overflows && shown < width {
            shown += 1;
            clipped.push('…');
        }
    }
    clipped
}

/// The number of visible characters of a line.
fn visible(line: &str) -> usize {
    anstream::adapter::strip_str(line).to_string().chars().count()
}

/// The lines that are drawn.
struct Screen {
    /// Width for text, which is wrapped.
    width: usize,
    /// Width for tables.
    table_width: usize,
    lines: Vec<String>,
    columns_left_out: usize,
}

fn drawn(state: &State, order: Order, width: usize, table_width: usize) -> Screen {
    let mut screen = Screen { width, table_width, lines: Vec::new(), columns_left_out: 0 };
    screen.lines.push(format!("{BOLD}numapilot top{BOLD:#}  {}", printable(&state.target)));
    screen.figures(state);
    screen.lines.push(String::new());
    screen.nodes(state);
    screen.lines.push(String::new());
    screen.traffic(state);
    screen.lines.push(String::new());
    screen.regions(state, order);
    screen
}

/// A column of a table. Its cells are aligned to the right, and include the space before them.
struct Column {
    title: String,
    width: usize,
    cells: Vec<String>,
    /// Columns with rank 0 stay; of the others, the highest rank is left out first.
    rank: usize,
}

impl Column {
    fn new(title: &str, width: usize, rank: usize, cells: impl Iterator<Item = String>) -> Self {
        Self { title: title.to_owned(), width, cells: cells.collect(), rank }
    }

    fn cell(&self, row: usize) -> String {
        let cell = self.cells.get(row).map_or("", String::as_str);
        format!("{:1$}{cell}", "", self.width.saturating_sub(visible(cell)))
    }
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

impl Screen {
    /// Adds a text that may take several lines, with its title in bold.
    fn add_wrapped(&mut self, title: &str, text: &str) {
        let text = wrap(&format!("{title}  {text}"), self.width, "", "  ");
        let text = text.replacen(title, &format!("{BOLD}{title}{BOLD:#}"), 1);
        self.lines.extend(text.lines().map(str::to_owned));
    }

    /// The columns that fit, with `rest` characters at the end of each line.
    fn fitting(&mut self, mut columns: Vec<Column>, rest: usize) -> Vec<Column> {
        let total = |columns: &[Column]| columns.iter().map(|column| column.width).sum::<usize>();
        while total(&columns).saturating_add(rest) > self.table_width {
            let least = (0..columns.len()).max_by_key(|at| columns[*at].rank);
            let Some(least) = least.filter(|at| columns[*at].rank > 0) else { break };
            columns.remove(least);
            self.columns_left_out += 1;
        }
        columns
    }

    fn figures(&mut self, state: &State) {
        let per_second = |metric| state.rate(metric).map(|n| format!("{}/s", count(n)));
        let figure = |metric, show: fn(f64) -> String| state.figure(metric).map(show);
        let moved = state.moved_pages.clone().map(|pages| pages / state.seconds());
        let all: [(&str, Known<String>); 12] = [
            ("CPUs", figure(Metric::CpusUtilized, |n| format!("{n:.2}"))),
            ("memory", figure(Metric::RssBytes, |n| bytes(n as u64))),
            ("faults", per_second(Metric::MinorFaults)),
            ("LAR", figure(Metric::LocalAccessRatio, percent)),
            ("imbalance", figure(Metric::ControllerImbalance, percent)),
            ("DRAM/µs", figure(Metric::Maptu, |n| format!("{n:.1}"))),
            ("links", figure(Metric::LinkUsage, percent)),
            ("latency", figure(Metric::DramLatencySeconds, seconds)),
            ("migrations", per_second(Metric::CpuMigrations)),
            ("moved", moved.map(|n| format!("{}/s", count(n)))),
            ("AutoNUMA", per_second(Metric::NumaPagesMigrated)),
            ("hints", per_second(Metric::NumaHintFaults)),
        ];
        let cell_width = if self.width >= 79 { 25 } else { 19 };
        let in_a_row = (self.width.saturating_add(2) / (cell_width + 2)).clamp(1, 3);
        let cell = |(name, value): &(&str, String)| {
            let space = cell_width.saturating_sub(visible(name) + 1 + visible(value));
            format!("{name} {BOLD}{value}{BOLD:#}{:space$}", "")
        };
        let known = all.iter().filter_map(|(name, value)| Some((*name, value.clone().ok()?)));
        for row in known.collect::<Vec<_>>().chunks(in_a_row) {
            let row = row.iter().map(cell).collect::<Vec<_>>().join("  ");
            self.lines.push(row.trim_end().to_owned());
        }
        // Figures that are missing for the same reason share it.
        let mut missing: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, value) in &all {
            let Err(why) = value else { continue };
            match missing.iter_mut().find(|(reason, _)| reason == why) {
                Some((_, names)) => names.push(name),
                None => missing.push((why, vec![name])),
            }
        }
        for (why, names) in missing {
            let text = format!("{NOT_SUPPORTED} {}: {}", names.join(", "), printable(why));
            let text = wrap(&text, self.width, "", "  ");
            self.lines.extend(text.lines().map(|line| format!("{DIM}{line}{DIM:#}")));
        }
    }

    fn nodes(&mut self, state: &State) {
        let nodes = || state.nodes.iter();
        let or_unknown = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), bytes);
        let rate = |n: u64| count(n as f64 / state.seconds());
        let columns = vec![
            Column::new("NODE", 4, 0, nodes().map(|node| node.id.to_string())),
            Column::new("CPUS", 6, 2, nodes().map(|node| node.cpus.to_string())),
            Column::new("MEMORY", 12, 0, nodes().map(|node| bytes(node.memory_bytes))),
            Column::new("USED", 12, 0, nodes().map(|node| or_unknown(node.used_bytes))),
            Column::new("", 11, 5, nodes().map(bar)),
            Column::new(
                "TARGET",
                12,
                1,
                nodes().map(|node| node.target_bytes.map_or_else(|| "-".to_owned(), bytes)),
            ),
            Column::new("LOCAL/s", 10, 3, nodes().map(|node| rate(node.allocated_local))),
            Column::new("OTHERS/s", 10, 4, nodes().map(|node| rate(node.allocated_remote))),
        ];
        let columns = self.fitting(columns, 0);
        let title = |column: &Column| format!("{:>1$}", column.title, column.width);
        let head: String = columns.iter().map(title).collect();
        self.lines.push(format!("{BOLD}{}{BOLD:#}", head.trim_end()));
        for row in 0..state.nodes.len() {
            self.lines.push(columns.iter().map(|column| column.cell(row)).collect());
        }
    }

    fn traffic(&mut self, state: &State) {
        const TITLE: &str = "TRAFFIC";
        let accesses = match &state.traffic {
            Err(why) => return self.add_wrapped(TITLE, &format!("{NOT_SUPPORTED}: {why}")),
            Ok(accesses) => accesses,
        };
        let from = state.nodes.iter().map(|node| node.id.to_string());
        let mut columns = vec![Column::new("", TITLE.len(), 0, from)];
        for (at, node) in state.nodes.iter().enumerate() {
            let cells = accesses.iter().map(|to| {
                let accesses = to.get(at).copied().unwrap_or_default();
                count(accesses as f64 / state.accessed_seconds())
            });
            columns.push(Column::new(&node.id.to_string(), 8, at + 1, cells));
        }
        let columns = self.fitting(columns, 0);
        let mut head = format!("{BOLD}{TITLE}{BOLD:#}");
        for column in &columns[1..] {
            let _ = write!(head, "{:>1$}", column.title, column.width);
        }
        let caption = "  DRAM accesses/s of row to column";
        if visible(&head) + caption.len() <= self.table_width {
            head += caption;
        }
        self.lines.push(head);
        for row in 0..accesses.len().min(state.nodes.len()) {
            self.lines.push(columns.iter().map(|column| column.cell(row)).collect());
        }
        if let Ok(links) = &state.links {
            // Do not separate a share from its link.
            let one = |link: &Link| format!("{}\u{a0}{}", link.between, percent(link.usage));
            let links: Vec<String> =
                links.iter().map(|link| one(link).replace(' ', "\u{a0}")).collect();
            let text = wrap(&format!("links  {}", links.join("  ")), self.width, "", "  ");
            self.lines.extend(text.replace('\u{a0}', " ").lines().map(str::to_owned));
        }
    }

    fn regions(&mut self, state: &State, order: Order) {
        const TITLE: &str = "HOT REGIONS";
        let mut regions: Vec<&Region> = match &state.regions {
            Err(why) => return self.add_wrapped(TITLE, &format!("{NOT_SUPPORTED}: {why}")),
            Ok(regions) if regions.is_empty() => {
                return self.add_wrapped(TITLE, "nothing was sampled yet");
            }
            Ok(regions) => regions.iter().collect(),
        };
        regions.sort_by(|a, b| match order {
            Order::Samples => b.total().total_cmp(&a.total()),
            Order::Size => b.bytes.cmp(&a.bytes),
            Order::Address => a.start.cmp(&b.start),
        });
        let rest: Vec<String> = regions.iter().map(|region| by_node(region)).collect();
        let each = || regions.iter();
        let columns = vec![
            Column::new("", 12, 2, each().map(|region| format!("{:012x}", region.start))),
            Column::new("SIZE", 10, 1, each().map(|region| bytes(region.bytes))),
            Column::new("SAMPLES", 9, 0, each().map(|region| count(region.total()))),
        ];
        let longest = rest.iter().map(|rest| visible(rest)).max().unwrap_or_default();
        let mut columns = self.fitting(columns, longest);
        // The title is above the first column.
        columns[0].width = columns[0].width.max(TITLE.len() + 1);
        let mut head = format!("{BOLD}{TITLE:<width$}{BOLD:#}", width = columns[0].width);
        for column in &columns[1..] {
            let _ = write!(head, "{:>1$}", column.title, column.width);
        }
        self.lines.push(head + "  BY NODE");
        for (row, rest) in rest.iter().enumerate() {
            let cells: String = columns.iter().map(|column| column.cell(row)).collect();
            self.lines.push(cells + rest);
        }
    }
}

/// A bar that shows how full a node is.
fn bar(node: &Node) -> String {
    let share = match (node.used_bytes, node.memory_bytes) {
        (Some(used), memory @ 1..) => (used as f64 / memory as f64).clamp(0.0, 1.0),
        _ => 0.0,
    };
    let style = match share {
        s if s > 0.95 => BAD,
        s if s > 0.85 => WARN,
        _ => GOOD,
    };
    let filled = "#".repeat((share * 10.0).round() as usize);
    format!("{style}{filled:<10}{style:#}")
}

/// The nodes that use a region, and its name.
fn by_node(region: &Region) -> String {
    let total = region.total();
    let mut nodes = region.samples.clone();
    nodes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shares = nodes.iter().map(|(node, n)| format!("{node}: {}", percent(n / total)));
    format!("  {}  {}", shares.collect::<Vec<_>>().join(", "), printable(&region.name))
}

#[cfg(test)]
mod tests;
