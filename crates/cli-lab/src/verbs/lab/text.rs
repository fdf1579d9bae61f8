//! The figures of a run as tables, laid out like those of `stat`.

use std::fmt::Write;

use numapilot_cli_kit::columns::{COMMENT, NAME, NOT_SUPPORTED, VALUE, grouped, percent};
use numapilot_cli_kit::terminal::{seconds, table};
use numapilot_lab::Shape;
use numapilot_lab_model::{Region, Report};

use super::json::traffic;

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
    let mut row = |value: Option<String>, name: &str, comment: Option<String>| {
        let value = value.unwrap_or_else(|| NOT_SUPPORTED.to_owned());
        let comment = comment.map_or(String::new(), |c| format!("# {c}"));
        let line = format!("{value:>VALUE$}   {name:<NAME$} {comment:<COMMENT$}");
        text += line.trim_end();
        text.push('\n');
    };
    let count = |n: u64| Some(grouped(n as f64));
    let ns = |value: Option<f64>| value.map(|v| format!("{v:.1} ns"));
    let dram = region.local_accesses + region.remote_accesses;
    row(Some(seconds(region.cpu_seconds)), "cpu", cpus_used(region));
    row(count(region.cycles), "cycles", None);
    row(
        count(region.instructions),
        "instructions",
        region.ipc.map(|v| format!("{v:.2} per cycle")),
    );
    row(
        count(region.reads + region.writes),
        "accesses",
        share(region.writes, region.reads + region.writes, "writes"),
    );
    row(
        count(region.last_level_misses),
        "cache-misses",
        region.mpki.map(|v| format!("{v:.2} per 1000 instructions")),
    );
    row(
        count(region.tlb_4k_misses + region.tlb_2m_misses),
        "tlb-misses",
        Some(format!("{} on 2 MiB pages", grouped(region.tlb_2m_misses as f64))),
    );
    row(count(region.invalidations), "invalidations", None);
    row(
        count(sum(&region.transfers)),
        "cache-transfers",
        Some("lines from other caches".to_owned()),
    );
    row(count(dram), "dram-accesses", region.maptu.map(|v| format!("{v:.2} per microsecond")));
    row(count(region.local_accesses), "local-accesses", region.local_access_ratio.map(percent));
    row(
        count(region.remote_accesses),
        "remote-accesses",
        share(region.remote_accesses, dram, "of all"),
    );
    row(region.controller_imbalance.map(percent), "controller-imbalance", None);
    row(
        region.link_usage.map(percent),
        "link-usage",
        region.link_imbalance.map(|v| format!("imbalance {}", percent(v))),
    );
    row(
        ns(region.mean_latency_ns),
        "dram-latency",
        region.mean_queue_ns.map(|v| format!("{v:.1} ns of it in queues")),
    );
    row(ns(region.p99_latency_ns), "dram-latency-p99", None);
    text += &nodes(region);
    text += &links(region);
    let _ = writeln!(text, "\n{:>VALUE$}   simulated", seconds(region.seconds));
    text
}

fn cpus_used(region: &Region) -> Option<String> {
    (region.seconds > 0.0)
        .then(|| format!("{:.2} CPUs utilized", region.cpu_seconds / region.seconds))
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
