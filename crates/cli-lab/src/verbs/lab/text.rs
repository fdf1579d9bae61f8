//! The figures of a run as tables.

use std::fmt::Write;

use numapilot_cli_kit::columns::{NAME, grouped, percent};
use numapilot_cli_kit::terminal::{seconds, table};
use numapilot_lab::Shape;
use numapilot_lab_model::{Counts, Region, Report};

use super::json::traffic;

/// Width of the column for a mode.
const MODE: usize = 15;

/// The tables of all regions, one after the other.
pub fn tables(command: &str, shape: &Shape, report: &Report) -> String {
    report.regions.iter().map(|region| one(command, shape, region)).collect()
}

fn one(command: &str, shape: &Shape, region: &Region) -> String {
    let mut text = match region.name.as_str() {
        "all" => format!("\n NUMA figures of {command} on {}:\n\n", shape.name),
        name => {
            let times =
                if region.times > 1 { format!(" ({} times)", region.times) } else { String::new() };
            let open = if region.open { ", not ended" } else { "" };
            format!("\n NUMA figures of region {name}{times}{open} on {}:\n\n", shape.name)
        }
    };
    text += &line("", ["all", "user", "kernel"].map(str::to_owned), None);
    let Region { all, user, kernel, .. } = region;
    let modes = [all, user, kernel];
    let counts = |of: fn(&Counts) -> u64| modes.map(|counts| grouped(of(counts) as f64));
    let figures = |of: fn(&Counts) -> Option<f64>, text: fn(f64) -> String| {
        modes.map(|counts| of(counts).map_or("-".to_owned(), text))
    };
    let whole = |value: Option<f64>, text: fn(f64) -> String| {
        [value.map_or("-".to_owned(), text), String::new(), String::new()]
    };
    let ns = |value: f64| format!("{value:.1} ns");
    let dram = |counts: &Counts| counts.local_accesses + counts.remote_accesses;
    let rows: [(&str, [String; 3], Option<String>); 17] = [
        ("cpu", modes.map(|counts| seconds(counts.cpu_seconds)), cpus_used(region)),
        ("cycles", counts(|c| c.cycles), None),
        ("instructions", counts(|c| c.instructions), all.ipc.map(|v| format!("{v:.2} per cycle"))),
        (
            "accesses",
            counts(|c| c.reads + c.writes),
            share(all.writes, all.reads + all.writes, "writes"),
        ),
        (
            "cache-misses",
            counts(|c| c.last_level_misses),
            all.mpki.map(|v| format!("{v:.2} per 1000 instructions")),
        ),
        (
            "tlb-misses",
            counts(|c| c.tlb_4k_misses + c.tlb_2m_misses),
            Some(format!("{} on 2 MiB pages", grouped(all.tlb_2m_misses as f64))),
        ),
        ("invalidations", counts(|c| c.invalidations), None),
        (
            "cache-transfers",
            counts(|c| sum(&c.transfers)),
            Some("lines from other caches".to_owned()),
        ),
        (
            "dram-accesses",
            modes.map(|counts| grouped(dram(counts) as f64)),
            region.maptu.map(|v| format!("{v:.2} per microsecond")),
        ),
        ("local-accesses", counts(|c| c.local_accesses), None),
        (
            "remote-accesses",
            counts(|c| c.remote_accesses),
            share(all.remote_accesses, dram(all), "of all"),
        ),
        ("local-access-ratio", figures(|c| c.local_access_ratio, percent), None),
        (
            "dram-latency",
            figures(|c| c.mean_latency_ns, ns),
            all.mean_queue_ns.map(|v| format!("{v:.1} ns of it in queues")),
        ),
        ("dram-latency-p99", figures(|c| c.p99_latency_ns, ns), None),
        ("controller-imbalance", whole(region.controller_imbalance, percent), None),
        ("link-usage", whole(region.link_usage, percent), None),
        ("link-imbalance", whole(region.link_imbalance, percent), None),
    ];
    text.extend(rows.map(|(name, values, comment)| line(name, values, comment)));
    text += &nodes(region);
    text += &links(region);
    let _ = writeln!(text, "\n  {} simulated", seconds(region.seconds));
    text
}

/// A row of figures: of both modes together, of user mode, and of the kernel.
fn line(name: &str, [all, user, kernel]: [String; 3], comment: Option<String>) -> String {
    let comment = comment.map_or(String::new(), |c| format!("   # {c}"));
    let figures = format!("  {name:<NAME$}{all:>MODE$}{user:>MODE$}{kernel:>MODE$}{comment}");
    format!("{}\n", figures.trim_end())
}

fn cpus_used(region: &Region) -> Option<String> {
    (region.seconds > 0.0)
        .then(|| format!("{:.2} CPUs utilized", region.all.cpu_seconds / region.seconds))
}

fn share(part: u64, whole: u64, of: &str) -> Option<String> {
    (whole > 0).then(|| format!("{} {of}", percent(part as f64 / whole as f64)))
}

fn sum(matrix: &[Vec<u64>]) -> u64 {
    matrix.iter().flatten().sum()
}

/// Each node's traffic by the node it came from.
fn nodes(region: &Region) -> String {
    let traffic = traffic(region);
    let header: Vec<String> =
        ["node".to_owned(), "accesses".to_owned(), "share".to_owned(), "load".to_owned()]
            .into_iter()
            .chain((0..traffic.len()).map(|i| format!("from {i}")))
            .collect();
    let right: Vec<usize> = (0..header.len()).collect();
    let mut rows = table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &right);
    for (i, node) in region.nodes.iter().enumerate() {
        let ratio = |value: Option<f64>| value.map_or("-".to_owned(), percent);
        let mut row = vec![
            i.to_string(),
            grouped(node.accesses as f64),
            ratio(node.share),
            ratio(node.usage),
        ];
        row.extend(traffic.iter().map(|from| {
            let to = from.get(i).copied().unwrap_or(0);
            ratio((node.accesses > 0).then(|| to as f64 / node.accesses as f64))
        }));
        rows.add_row(row);
    }
    format!("\n{}\n", indent(&rows.to_string()))
}

fn links(region: &Region) -> String {
    if region.links.is_empty() {
        return String::new();
    }
    let mut rows = table(&["link", "there", "back", "load"], &[0, 1, 2, 3]);
    for link in &region.links {
        rows.add_row([
            format!("{}-{}", link.from, link.to),
            numapilot_cli_kit::terminal::bytes(link.bytes),
            numapilot_cli_kit::terminal::bytes(link.bytes_back),
            link.usage.map_or("-".to_owned(), percent),
        ]);
    }
    format!("\n{}\n", indent(&rows.to_string()))
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {}", line.trim_end())).collect::<Vec<_>>().join("\n")
}
