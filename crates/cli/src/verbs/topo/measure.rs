//! `topo --measure`: shows progress, and prints what the matrices do not show.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use numapilot_cli_kit::date;
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::terminal::{BOLD, Terminal, WARN, bytes, table};
use numapilot_topology::Machine;
use numapilot_topology::description::Description;
use numapilot_topology::measure::{Measurement, Options, Placed, Sample, measure};

/// Share of the time for which a thread has its CPU on an otherwise idle machine.
const UNDISTURBED: f64 = 0.97;

/// Measures the machine and puts the figures into it.
pub fn run(
    terminal: &Terminal,
    machine: &mut Machine,
    size: Option<u64>,
) -> anyhow::Result<Measurement> {
    let bar = if terminal.is_interactive() { ProgressBar::new(1) } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let options = Options { bytes: size, ..Options::default() };
    let result = measure(machine, &options, &mut |done, of, what| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    let measurement = result?;
    let medians = |samples: &[Vec<Option<Sample>>]| {
        samples.iter().map(|row| row.iter().map(|s| s.map(|s| s.median)).collect()).collect()
    };
    machine.figures.latency_ns = medians(&measurement.latency_ns);
    machine.figures.bandwidth_gb_per_s = medians(&measurement.bandwidth_gb_per_s);
    machine.figures.source = Some(format!("measured {} on {}", date::today(), machine.name));
    Ok(measurement)
}

/// Writes the measured machine as a description.
pub fn save(path: &Path, machine: &Machine, measurement: &Measurement) -> anyhow::Result<()> {
    let text = Description::measured(machine, measurement, &date::today())
        .and_then(|description| description.to_toml())
        .with_context(|| format!("cannot save {}", path.display()))?;
    file::put(path, &text, Existing::Replace)
}

/// The spread of the figures, latency under load, and missing figures with reasons.
pub fn report(machine: &Machine, measurement: &Measurement) -> String {
    let mut text = String::from("\n");
    let spread = |samples: &[Vec<Option<Sample>>]| {
        let worst = samples.iter().flatten().flatten().map(Sample::spread).max_by(f64::total_cmp);
        worst.map_or_else(|| "<not supported>".to_owned(), |s| format!("{:.1} %", 100.0 * s))
    };
    text += &format!(
        "medians; repetitions lie within {} (latency) and {} (bandwidth) of each other\n",
        spread(&measurement.latency_ns),
        spread(&measurement.bandwidth_gb_per_s)
    );
    if let Some(share) = measurement.cpu_share.filter(|share| *share < UNDISTURBED) {
        text += &format!(
            "{WARN}other programs took {:.0} % of the measured CPUs' time:{WARN:#} bandwidth is \
             too low, and latency is under their load\n",
            100.0 * (1.0 - share)
        );
    }
    for (node, placed) in machine.nodes.iter().zip(&measurement.memory) {
        if let Some(placed) = placed {
            text += &format!("node {}: {}\n", node.id, memory(placed));
        }
    }
    for loaded in &measurement.loaded_latency {
        text += &format!("\n{BOLD}latency under load on node {}{BOLD:#}\n", loaded.node);
        let mut rows = table(&["load GB/s", "latency ns", "lowest", "highest"], &[0, 1, 2, 3]);
        for point in &loaded.points {
            let sample = point.latency_ns;
            rows.add_row([
                format!("{:.1}", point.gb_per_s),
                format!("{:.1}", sample.median),
                format!("{:.1}", sample.low),
                format!("{:.1}", sample.high),
            ]);
        }
        text += &format!("{rows}\n");
    }
    if !measurement.unsupported.is_empty() {
        text.push('\n');
    }
    for missing in &measurement.unsupported {
        text += &format!("{WARN}<not supported>{WARN:#} {}: {}\n", missing.what, missing.reason);
    }
    text
}

fn memory(placed: &Placed) -> String {
    let huge = match placed.huge_pages {
        Some(share) if share > 0.99 => "in huge pages".to_owned(),
        Some(share) => format!("{:.0} % in huge pages: latency includes page walks", 100.0 * share),
        None => "page size not known".to_owned(),
    };
    let how = match &placed.first_touch {
        None => "bound with mbind".to_owned(),
        Some(why) => format!("placed by first touch, {why}"),
    };
    let verified = if placed.verified.is_none() { ", its node not verified" } else { "" };
    format!("2 x {} {huge}, {how}{verified}", bytes(placed.bytes))
}

#[cfg(test)]
mod tests {
    use numapilot_topology::NodeId;
    use numapilot_topology::measure::{Loaded, LoadedPoint, Unsupported};

    use super::*;

    #[test]
    fn the_report_says_how_sure_and_what_is_missing() {
        let sample = |median: f64| Sample { median, low: median - 1.0, high: median + 1.0 };
        let placed = Placed {
            bytes: 256 << 20,
            huge_pages: Some(0.5),
            first_touch: Some("mbind is refused (EPERM)".to_owned()),
            verified: None,
        };
        let measurement = Measurement {
            latency_ns: vec![vec![Some(sample(100.0)), None], vec![None, None]],
            bandwidth_gb_per_s: vec![vec![Some(sample(10.0)), None], vec![None, None]],
            loaded_latency: vec![Loaded {
                node: NodeId(0),
                points: vec![
                    LoadedPoint { gb_per_s: 0.0, latency_ns: sample(100.0) },
                    LoadedPoint { gb_per_s: 9.5, latency_ns: sample(250.0) },
                ],
            }],
            cpu_share: Some(0.61),
            memory: vec![Some(placed), None],
            unsupported: vec![Unsupported {
                what: "latency and bandwidth from node 1".to_owned(),
                reason: "it has no CPUs to measure from".to_owned(),
            }],
        };
        let text = report(&Machine::uniform(2, 2), &measurement);
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
    }
}
