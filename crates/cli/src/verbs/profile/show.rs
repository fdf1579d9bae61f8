//! `numapilot profile show FILE`: what a profile sets, and where it was measured.

use std::io::Write;
use std::process::ExitCode;

use numapilot_cli_kit::terminal::{Terminal, printable};
use numapilot_place::{Measured, Profile};

use super::args::ShowArgs;

/// Runs `profile show`.
pub fn run(args: &ShowArgs, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let Profile { plan, measured } = Profile::load(&args.profile)?;
    let mut lines = plan.explain();
    if lines.is_empty() {
        lines.push("nothing: the program runs as without numapilot".to_owned());
    }
    lines.extend(measured.iter().flat_map(origin));
    let mut out = terminal.out();
    for line in lines {
        writeln!(out, "{}", printable(&line))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where and with what result it was measured, and how that machine compares with this one.
fn origin(measured: &Measured) -> Vec<String> {
    let mut lines = Vec::new();
    let version = measured.numapilot.as_ref().map(|version| format!("by numapilot {version}"));
    let date = measured.date.as_ref().map(|date| format!("on {date}"));
    let emulated = measured.emulated.as_ref();
    let machine = emulated.map(|name| format!("on the emulated machine {name}"));
    let mut when: Vec<String> = date.into_iter().chain(version).chain(machine).collect();
    when.extend(measured.processor.clone());
    when.extend(measured.kernel.as_ref().map(|release| format!("Linux {release}")));
    if !when.is_empty() {
        lines.push(format!("measured: {}", when.join(", ")));
    }
    if let Some(ratio) = measured.ratio {
        let metric = measured.metric.as_deref().unwrap_or("the metric");
        let interval = measured.interval.map(|[low, high]| format!(" ({low:.3} to {high:.3})"));
        let interval = interval.unwrap_or_default();
        lines.push(format!("result: {metric} {ratio:.3} times that of the default{interval}"));
    }
    lines.extend(measured.command.map(|hash| format!("command: one with the hash {hash}")));
    if let Some(topology) = measured.topology {
        lines.push(match measured.differs_here() {
            None => format!("topology: {topology}, that of this machine"),
            Some(note) => format!("topology: {}; {}", note.cause, note.remedy),
        });
    }
    lines
}
