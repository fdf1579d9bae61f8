//! Prints every tick: a line of JSON for programs, or text for people.

use std::collections::BTreeMap;

use numapilot_cli_kit::terminal::{self, Terminal, plural};
use numapilot_cores::decide::{Load, Why};
use numapilot_cores::net::{Transition, Verdict};
use numapilot_cores::{Added, CoresError, Left, Report};
use numapilot_place::{chain, visible_json};
use numapilot_topology::CpuSet;
use serde::Serialize;

use super::svg::Point;
use crate::sink::Sink;

/// A target's tick.
#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since the beginning.
    time: f64,
    pid: i32,
    metrics: Metrics,
    decision: Decided<'a>,
    orders: Cores<'a>,
    /// `null` in a dry run.
    done: Option<Cores<'a>>,
}

#[derive(Serialize)]
struct Metrics {
    #[serde(flatten)]
    load: Load,
    utilisation: Option<f64>,
    cores: u32,
    pinned_threads: usize,
}

#[derive(Serialize)]
struct Decided<'a> {
    verdict: Verdict,
    why: Why,
    wanted: u32,
    firings: &'a [Transition],
}

#[derive(Clone, Copy, Serialize)]
struct Cores<'a> {
    cores: usize,
    cpus: &'a CpuSet,
}

/// The totals of a target for the summary.
#[derive(Default)]
struct Sum {
    ticks: u32,
    changes: u32,
    cores: u64,
    busy: f64,
    least: u32,
    most: u32,
    pins: bool,
    points: Vec<Point>,
}

/// The destination of the output.
pub struct Output {
    terminal: Terminal,
    json: bool,
    dry_run: bool,
    verbose: bool,
    /// Whether every tick is kept for the picture.
    drawn: bool,
    sums: BTreeMap<i32, Sum>,
    sink: Sink,
    /// Whether a target was left because of an error, or could not be put back.
    failed: bool,
}

impl Output {
    pub fn new(terminal: Terminal, json: bool, dry_run: bool, verbose: bool) -> Self {
        let (sums, sink) = (BTreeMap::new(), Sink::out(terminal));
        Self { terminal, json, dry_run, verbose, drawn: false, sums, sink, failed: false }
    }

    /// Call this when a program of the user starts; from then on, a failed write does not end it.
    pub fn program_runs(&mut self) {
        self.sink.program_runs();
    }

    /// Whether a target was left because of an error, or could not be put back.
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    /// Keeps every tick for [`Output::points`].
    pub const fn drawn(mut self, drawn: bool) -> Self {
        self.drawn = drawn;
        self
    }

    /// Prints how a target is held, and whether its memory traffic is counted.
    pub fn begin(&self, pid: i32, added: &Added) {
        if !self.verbose {
            return;
        }
        let is_held = self.in_fact("is held", "would be held");
        self.say(format_args!("process {pid} {is_held} by {}", added.held_by));
        match &added.traffic {
            Ok(source) => self.say(format_args!("its memory traffic is counted by {source}")),
            Err(reason) => self.say(format_args!(
                "its memory traffic is not known ({reason}): whether more cores help is judged \
                 by how busy they are"
            )),
        }
    }

    /// Prints the CPUs with which a target begins.
    pub fn first(&mut self, pid: i32, cpus: &CpuSet) -> anyhow::Result<()> {
        let cores = plural(cpus.len(), "core");
        let begins = self.in_fact("begins", "would begin");
        let text = format!("process {pid} {begins} with {cores} ({})", named(cpus));
        if self.dry_run && !self.json {
            self.sink.write(&(text + "\n"))?;
        } else if self.verbose {
            self.say(text);
        }
        Ok(())
    }

    pub fn tick(&mut self, time: f64, report: &Report) -> anyhow::Result<()> {
        let cores = u32::try_from(report.cpus.len()).unwrap_or(u32::MAX);
        let sum = self.sums.entry(report.pid).or_default();
        sum.least = if sum.ticks == 0 { report.cores } else { sum.least.min(report.cores) };
        sum.most = sum.most.max(report.cores);
        sum.ticks += 1;
        sum.cores += u64::from(report.cores);
        let busy = report.load.busy.unwrap_or(0.0);
        sum.busy += busy;
        if self.drawn {
            let load = busy + report.load.waiting.unwrap_or(0.0);
            sum.points.push(Point { load, cores: report.cores });
        }
        let changed = cores != report.cores;
        sum.changes += u32::from(changed);
        if report.pinned > 0 && !std::mem::replace(&mut sum.pins, true) {
            self.terminal.warn(format_args!(
                "threads of process {} have an affinity of their own ({}): they are where the \
                 program wants them; switch that off in the program to have them moved",
                report.pid, report.pinned
            ));
        }
        if self.json {
            return self.line(time, report);
        }
        if changed && (self.verbose || self.dry_run) {
            let text = text(time, report);
            if self.dry_run {
                self.sink.write(&(text + "\n"))?;
            } else {
                self.say(text);
            }
        }
        Ok(())
    }

    fn line(&mut self, time: f64, report: &Report) -> anyhow::Result<()> {
        let cores = Cores { cores: report.cpus.len(), cpus: &report.cpus };
        let line = Line {
            time,
            pid: report.pid,
            metrics: Metrics {
                load: report.load,
                utilisation: report.load.utilisation(report.cores),
                cores: report.cores,
                pinned_threads: report.pinned,
            },
            decision: Decided {
                verdict: report.decision.verdict,
                why: report.decision.why,
                wanted: report.decision.wanted,
                firings: &report.firings,
            },
            orders: cores,
            done: (!self.dry_run).then_some(cores),
        };
        self.sink.write(&(visible_json(&serde_json::to_string(&line)?) + "\n"))
    }

    /// Prints why a target was left, unless it has ended, and what could not be put back exactly.
    pub fn left(&mut self, left: &Left) {
        let pid = left.pid;
        self.failed |= left.failed();
        if let Some(error) = left.why.as_ref().filter(|why| !matches!(why, CoresError::Gone)) {
            self.terminal.warn(format_args!("process {pid} is left: {}", chain(error)));
        }
        match &left.put_back {
            Ok(notes) => notes
                .iter()
                .for_each(|note| self.terminal.warn(format_args!("process {pid}: {note}"))),
            Err(CoresError::Gone) => {}
            Err(error) => self.terminal.warn(format_args!(
                "the CPUs of process {pid} could not be put back: {}; once the cause is gone, run \
                 numapilot restore",
                chain(error)
            )),
        }
    }

    /// Prints a summary.
    pub fn end(&self) {
        for (pid, sum) in self.sums.iter().filter(|(_, sum)| sum.ticks > 0) {
            let ticks = f64::from(sum.ticks);
            let has = self.in_fact("", "would have had ");
            self.say(format_args!(
                "process {pid}: {has}{} to {}, {:.2} on average, of which {:.2} were busy; {} in {}",
                sum.least,
                plural(sum.most, "core"),
                sum.cores as f64 / ticks,
                sum.busy / ticks,
                plural(sum.changes, "change"),
                plural(sum.ticks, "tick")
            ));
        }
    }

    /// Load and cores of every target.
    pub fn points(&self) -> impl Iterator<Item = (i32, &[Point])> {
        self.sums.iter().map(|(pid, sum)| (*pid, sum.points.as_slice()))
    }

    /// The words for what is done, or for what a dry run would do.
    const fn in_fact(&self, done: &'static str, would: &'static str) -> &'static str {
        if self.dry_run { would } else { done }
    }

    fn say(&self, what: impl std::fmt::Display) {
        self.terminal.say(format_args!("cores: {what}"));
    }
}

/// `CPU 3`, `CPUs 0-1`.
fn named(cpus: &CpuSet) -> String {
    format!("CPU{} {cpus}", if cpus.len() == 1 { "" } else { "s" })
}

fn text(time: f64, report: &Report) -> String {
    let load = &report.load;
    let waiting = load.waiting.map_or(String::new(), |waiting| format!(", {waiting:.2} waiting"));
    let pressure =
        load.pressure.map_or(String::new(), |p| format!(", pressure {:.0} %", p * 100.0));
    format!(
        "{}, process {}: {} to {} ({}); {:.2} busy{waiting}{pressure}: {}",
        terminal::seconds(time),
        report.pid,
        report.cores,
        plural(report.cpus.len(), "core"),
        named(&report.cpus),
        load.busy.unwrap_or(0.0),
        report.decision.why.text()
    )
}
