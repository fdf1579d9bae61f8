//! Prints the table, laid out like perf's: value, name, and derived figures.

use std::collections::BTreeMap;
use std::fmt::Write;

use numapilot_cli_kit::columns::{COMMENT, NAME, NOT_SUPPORTED, VALUE, grouped, percent};
use numapilot_cli_kit::terminal::{bytes, printable, seconds, table, wrap};
use numapilot_observe::metric::{Kind, Unit};
use numapilot_observe::{Metric, NodeFigures, Observation, Summary};
use numapilot_place::settings_journal::Holder;

/// Width at which reasons are wrapped: the least that a terminal has.
const WIDTH: usize = 80;

/// The table of one run, or of the mean of several, with the `selected` figures if there are any.
pub fn report(
    title: &str,
    figures: &Observation,
    statistics: &BTreeMap<Metric, Summary>,
    runs: usize,
    selected: &[Metric],
    held: &[Holder],
) -> String {
    let mut text = format!("\n NUMA figures of {}", printable(title));
    if runs > 1 {
        let _ = write!(text, " (mean of {runs} runs)");
    }
    text += ":\n\n";
    let rows = rows(selected, figures);
    for &metric in &rows {
        // Figures that were not asked for by name are listed with their reasons below.
        if selected.is_empty() && figures.value(metric).is_none() {
            continue;
        }
        let value = figures.value(metric).map_or(NOT_SUPPORTED.to_owned(), |v| show(metric, v));
        let mut line = format!("{value:>VALUE$}   {:<NAME$}", label(metric));
        let comment = comment(metric, figures).map_or(String::new(), |c| format!("# {c}"));
        let deviation = deviation(metric, statistics).unwrap_or_default();
        let _ = write!(line, " {comment:<COMMENT$} {deviation}");
        text += line.trim_end();
        text.push('\n');
    }
    if selected.is_empty() {
        text += &nodes(figures);
    }
    if !selected.contains(&Metric::Seconds) {
        let elapsed = figures.value(Metric::Seconds).map_or(NOT_SUPPORTED.to_owned(), seconds);
        let deviation = deviation(Metric::Seconds, statistics).unwrap_or_default();
        let line = format!("{elapsed:>VALUE$}   {}  {deviation}", label(Metric::Seconds));
        let _ = writeln!(text, "\n{}", line.trim_end());
    }
    if figures.value(Metric::SimulatedSeconds).is_some() {
        text +=
            "\n (cycles to DRAM latency are counted by the lab: machine-wide, with the kernel)\n";
    }
    for holder in held {
        let holder = printable(&holder.to_string());
        let _ = writeln!(text, "\n (not with the machine's own settings: {holder})");
    }
    text += &reasons(&rows, figures, selected.is_empty());
    text.push('\n');
    text
}

/// The metrics that have a line.
fn rows(selected: &[Metric], figures: &Observation) -> Vec<Metric> {
    if selected.is_empty() {
        return Metric::ALL.iter().copied().filter(|m| is_row(*m, figures)).collect();
    }
    selected.to_vec()
}

/// A line for each figure, with the fields of `perf stat -x`: with `-I`, the end of the interval in
/// seconds; the value in full, or `<not supported>`; its unit; its name; and with several runs the
/// standard deviation in percent of the mean.
pub fn separated(
    separator: &str,
    time: Option<f64>,
    figures: &Observation,
    statistics: &BTreeMap<Metric, Summary>,
    selected: &[Metric],
) -> String {
    let mut text = String::new();
    for metric in rows(selected, figures) {
        let unit = match metric.unit() {
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Count | Unit::Ratio | Unit::Share => "",
        };
        let value = figures.value(metric).map_or(NOT_SUPPORTED.to_owned(), |v| v.to_string());
        let deviation = statistics.get(&metric).and_then(Summary::relative_deviation);
        let fields = time.map(|time| format!("{time:.3}")).into_iter();
        let fields = fields.chain([value, unit.to_owned(), label(metric)]);
        let fields = fields.chain(deviation.map(percent));
        text += &fields.collect::<Vec<_>>().join(separator);
        text.push('\n');
    }
    text
}

/// A line for each selected figure of an interval.
pub fn interval(time: f64, figures: &Observation, selected: &[Metric]) -> String {
    let mut text = String::new();
    for metric in selected {
        let value = figures.value(*metric).map_or(NOT_SUPPORTED.to_owned(), |v| show(*metric, v));
        let _ = writeln!(text, "{time:>9.3} {value:>VALUE$}   {}", label(*metric));
    }
    text
}

/// Whether a metric has its own line; others are comments beside one. Metrics of emulated machines
/// are not listed as missing elsewhere.
fn is_row(metric: Metric, figures: &Observation) -> bool {
    match metric {
        Metric::Seconds => false,
        Metric::SimulatedSeconds
        | Metric::HugeDtlbMisses
        | Metric::LinkUsage
        | Metric::DramLatencySeconds => figures.value(metric).is_some(),
        Metric::ControllerImbalance => true,
        _ => metric.kind() != Kind::Derived,
    }
}

/// `peak-rss` for `peak_rss_bytes`: the unit is with the value. The wall time has the name that
/// it has below the table.
pub fn label(metric: Metric) -> String {
    if metric == Metric::Seconds {
        return "elapsed".to_owned();
    }
    let name = metric.name();
    let name = name.strip_suffix("_seconds").or(name.strip_suffix("_bytes")).unwrap_or(name);
    name.replace('_', "-")
}

fn show(metric: Metric, value: f64) -> String {
    match metric.unit() {
        Unit::Seconds => seconds(value),
        Unit::Bytes => bytes(value as u64),
        Unit::Count => grouped(value),
        Unit::Ratio => format!("{value:.2}"),
        Unit::Share => percent(value),
    }
}

fn comment(metric: Metric, figures: &Observation) -> Option<String> {
    let value = |m| figures.value(m);
    let share =
        |part: f64, whole: Option<f64>| whole.filter(|w| *w > 0.0).map(|w| percent(part / w));
    Some(match metric {
        Metric::UserSeconds => {
            let cpus = value(Metric::CpusUtilized)?;
            format!("{} CPUs utilized", show(Metric::CpusUtilized, cpus))
        }
        Metric::MinorFaults | Metric::ContextSwitches | Metric::CpuMigrations => {
            let per_second = value(metric)? / value(Metric::Seconds).filter(|s| *s > 0.0)?;
            format!("{} /s", grouped(per_second.round()))
        }
        Metric::Instructions => format!("{} per cycle", show(Metric::Ipc, value(Metric::Ipc)?)),
        Metric::CacheMisses => {
            format!("{} of references", share(value(metric)?, value(Metric::CacheReferences))?)
        }
        Metric::LocalAccesses => {
            format!("{} of DRAM accesses", percent(value(Metric::LocalAccessRatio)?))
        }
        Metric::RemoteAccesses => format!("{:.1} DRAM accesses per µs", value(Metric::Maptu)?),
        Metric::NumaPteUpdates | Metric::NumaHintFaults | Metric::NumaPagesMigrated => {
            "machine-wide".to_owned()
        }
        Metric::NumaHintFaultsLocal => match share(value(metric)?, value(Metric::NumaHintFaults)) {
            Some(share) => format!("machine-wide, {share} of hint faults"),
            None => "machine-wide".to_owned(),
        },
        _ => return None,
    })
}

fn deviation(metric: Metric, statistics: &BTreeMap<Metric, Summary>) -> Option<String> {
    Some(format!("( ± {} )", percent(statistics.get(&metric)?.relative_deviation()?)))
}

/// Memory and allocations by node.
fn nodes(figures: &Observation) -> String {
    let mut rows = table(
        &["node", "memory", "peak", "numa-hit", "numa-miss", "local", "other", "interleave"],
        &[0, 1, 2, 3, 4, 5, 6, 7],
    );
    let memory = |b: Option<u64>| b.map_or("-".to_owned(), bytes);
    for node in &figures.nodes {
        let a = &node.allocations;
        let pages = [a.numa_hit, a.numa_miss, a.local_node, a.other_node, a.interleave_hit];
        let start =
            [node.id.to_string(), memory(node.memory_bytes), memory(node.peak_memory_bytes)];
        rows.add_row(start.into_iter().chain(pages.map(|n| grouped(n as f64))));
    }
    let mut text = "\n".to_owned();
    for line in rows.to_string().lines() {
        let _ = writeln!(text, "   {}", line.trim_end());
    }
    text + "   (memory is the target's, pages from numa-hit on are the whole machine's)\n"
}

/// Why figures are missing, each reason once; the reasons for the table of nodes only if there is
/// one.
fn reasons(rows: &[Metric], figures: &Observation, has_nodes: bool) -> String {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for &metric in rows {
        if let Err(reason) = figures.figure(metric) {
            by_reason.entry(reason).or_default().push(label(metric));
        }
    }
    if let Some(reason) = figures.unsupported().get("memory_over_time").filter(|_| has_nodes) {
        by_reason.entry(reason).or_default().push("memory".to_owned());
    }
    let mut text = String::new();
    for (reason, names) in by_reason {
        text.push('\n');
        text +=
            &wrap(&format!("{NOT_SUPPORTED} {}: {reason}", names.join(", ")), WIDTH, " ", "   ");
    }
    text
}

/// The rows of `-I`: one for each interval, with the figures that change quickly.
#[derive(Default)]
pub struct Rows {
    /// Rows since the last heading.
    written: usize,
    /// Whether each of [`COLUMNS`] has had a value. Those that never have one are left out here and
    /// explained once, in the table at the end.
    known: [bool; COLUMNS.len()],
}

/// Their columns: metric, heading, width.
const COLUMNS: [(Metric, &str, usize); 6] = [
    (Metric::CpusUtilized, "CPUs", 7),
    (Metric::RssBytes, "rss", 9),
    (Metric::MinorFaults, "faults", 11),
    (Metric::ContextSwitches, "switches", 9),
    (Metric::CpuMigrations, "migrations", 10),
    (Metric::LocalAccessRatio, "local", 8),
];

impl Rows {
    /// Rows between two headings.
    const PAGE: usize = 24;

    /// One row, preceded by the heading if it is due.
    pub fn row(&mut self, time: f64, figures: &Observation) -> String {
        self.line(time, |metric| figures.value(metric), &figures.nodes)
    }

    fn line(
        &mut self,
        time: f64,
        value: impl Fn(Metric) -> Option<f64>,
        nodes: &[NodeFigures],
    ) -> String {
        let before = self.known;
        for ((metric, ..), known) in COLUMNS.iter().zip(&mut self.known) {
            *known |= value(*metric).is_some();
        }
        let shown =
            || COLUMNS.into_iter().zip(self.known).filter_map(|(c, known)| known.then_some(c));
        let mut text = String::new();
        if self.known != before || self.written.is_multiple_of(Self::PAGE) {
            self.written = 0;
            let _ = write!(text, "{:>9}", "time");
            for (_, heading, width) in shown() {
                let _ = write!(text, " {heading:>width$}");
            }
            for node in nodes {
                let _ = write!(text, " {:>9}", format!("node {}", node.id));
            }
            text.push('\n');
        }
        self.written += 1;
        let _ = write!(text, "{time:>9.3}");
        for (metric, _, width) in shown() {
            let value = match (metric, value(metric)) {
                (_, None) => "-".to_owned(),
                (_, Some(value)) => show(metric, value),
            };
            let _ = write!(text, " {value:>width$}");
        }
        for node in nodes {
            let _ = write!(text, " {:>9}", node.memory_bytes.map_or("-".to_owned(), bytes));
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_unit_that_stands_with_the_value() {
        assert_eq!(label(Metric::PeakRssBytes), "peak-rss");
        assert_eq!(label(Metric::UserSeconds), "user");
        assert_eq!(label(Metric::CpuMigrations), "cpu-migrations");
    }

    #[test]
    fn a_factor_is_no_percentage() {
        assert_eq!(show(Metric::CpusUtilized, 2.5), "2.50");
        assert_eq!(show(Metric::Ipc, 0.5), "0.50");
        assert_eq!(show(Metric::Maptu, 12.0), "12.00");
        assert_eq!(show(Metric::LocalAccessRatio, 0.5), percent(0.5));
    }

    #[test]
    fn an_interval_without_a_figure_keeps_its_column() {
        let mut rows = Rows::default();
        let mut row = |local: Option<f64>| {
            let value = |metric| match metric {
                Metric::CpusUtilized => Some(1.0),
                Metric::LocalAccessRatio => local,
                _ => None,
            };
            rows.line(0.5, value, &[])
        };
        assert_eq!(row(None), "     time    CPUs\n    0.500    1.00\n");
        let headed = row(Some(0.25));
        assert!(headed.starts_with("     time    CPUs    local\n    0.500    1.00 "), "{headed}");
        assert_eq!(row(None), "    0.500    1.00        -\n");
    }
}
