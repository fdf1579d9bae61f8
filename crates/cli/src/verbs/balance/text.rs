//! Prints every interval: a line of JSON on standard output, or one for people on standard error,
//! where it does not disturb the program's own output.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use numapilot_balance::{
    Interval, MemoryError, Metrics, Obstacle, Order, Page, Replicable, State, Why,
};
use numapilot_cli_kit::terminal::{self, Terminal};
use numapilot_observe::source::{PassedOver, Source};
use numapilot_place::daemons::NOTHING_YET;
use numapilot_place::settings_journal::Change;
use numapilot_place::visible_json;
use serde::Serialize;

use crate::sink::Sink;

/// A line of JSON.
#[derive(Debug, Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    line: &'a Line,
    /// Machine-wide settings that are changed meanwhile, with their values.
    machine_wide: &'a BTreeMap<String, String>,
}

/// One interval of one process.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Seconds since the beginning.
    time: f64,
    pid: i32,
    metrics: Metrics,
    decision: Decided,
    orders: Vec<Ordered>,
    /// `None` in a dry run.
    done: Option<Carried>,
    lost_samples: u64,
}

#[derive(Debug, Serialize)]
struct Decided {
    state: State,
    collocates: bool,
    interleaves: bool,
    /// Share of the time lost on memory that the orders should save.
    gain: Option<f64>,
    replicable_pages: usize,
    replicable: Vec<Copied>,
}

/// Memory that would gain most from a copy on each node.
#[derive(Clone, Copy, Debug, Serialize)]
struct Copied {
    address: u64,
    pages: u64,
    /// Share of the time lost on memory that copies would save.
    gain: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Ordered {
    address: u64,
    pages: u64,
    node: u32,
    why: Why,
}

#[derive(Debug, Serialize)]
struct Carried {
    pages: usize,
    bytes: u64,
    /// Bytes that will be spread on first touch.
    spread_bytes: u64,
    /// Huge pages that were split.
    split: usize,
    /// Pages that were not moved, by reason.
    refused: BTreeMap<Obstacle, u64>,
    seconds: f64,
}

impl Line {
    pub fn of(now_ns: u64, pid: i32, interval: &Interval, lost_samples: u64) -> Self {
        let decision = &interval.decision;
        Self {
            time: now_ns as f64 / 1e9,
            pid,
            metrics: decision.metrics,
            decision: Decided {
                state: decision.state,
                collocates: decision.collocates,
                interleaves: decision.interleaves,
                gain: decision.gain,
                replicable_pages: decision.replicable,
                replicable: decision.copies.iter().map(Copied::of).collect(),
            },
            orders: merged(&decision.orders),
            done: interval.done.as_ref().map(|done| Carried {
                pages: done.moved.len(),
                bytes: done.moved.len() as u64 * Page::BYTES,
                spread_bytes: done.spread_bytes,
                split: done.split,
                refused: done.refused.clone(),
                seconds: done.took_ns as f64 / 1e9,
            }),
            lost_samples,
        }
    }

    /// The text for people.
    fn text(&self) -> String {
        let percent = |share: Option<f64>| {
            share.map_or_else(|| "unknown".to_owned(), |share| format!("{:.0} %", share * 100.0))
        };
        let mut text = format!(
            "{:.1} s, process {}: {}; {} samples, LAR {}, imbalance {}",
            self.time,
            self.pid,
            self.decision.state.name().replace('_', " "),
            self.metrics.samples,
            percent(self.metrics.local_access_ratio),
            percent(self.metrics.controller_imbalance),
        );
        for (why, what) in
            [(Why::Collocate, "collocate"), (Why::Interleave, "interleave"), (Why::Undo, "undo")]
        {
            let pages: u64 = self.orders.iter().filter(|o| o.why == why).map(|o| o.pages).sum();
            if pages > 0 {
                // Writing to a string cannot fail.
                let _ = write!(text, ", {what} {pages} pages");
            }
        }
        if let Some(done) = self.done.as_ref().filter(|_| !self.orders.is_empty()) {
            let _ = write!(text, ", {} moved", terminal::bytes(done.bytes));
            if done.spread_bytes > 0 {
                let bytes = terminal::bytes(done.spread_bytes);
                let _ = write!(text, ", {bytes} spread from the first touch on");
            }
            if done.split > 0 {
                let _ = write!(text, ", {} huge pages split", done.split);
            }
            for (obstacle, pages) in &done.refused {
                let why = format!("{obstacle:?}").to_lowercase();
                let _ = write!(text, ", {pages} {why}");
            }
        }
        if self.decision.replicable_pages > 0 {
            let pages = self.decision.replicable_pages;
            let _ = write!(text, ", {pages} would gain by a copy on each node");
            let gain: f64 = self.decision.replicable.iter().map(|copies| copies.gain).sum();
            if let Some(first) = self.decision.replicable.first() {
                let gain = percent(Some(gain));
                let _ = write!(text, " ({gain} of the time lost; at {:#x})", first.address);
            }
        }
        text
    }
}

impl Copied {
    const fn of(copies: &Replicable) -> Self {
        Self { address: copies.start.address(), pages: copies.pages, gain: copies.gain }
    }
}

/// Merges neighbouring orders.
fn merged(orders: &[Order]) -> Vec<Ordered> {
    let mut all: Vec<Ordered> = Vec::new();
    for order in orders {
        let (address, pages) = (order.start.address(), u64::from(order.pages));
        match all.last_mut() {
            Some(last)
                if last.address + last.pages * Page::BYTES == address
                    && (last.node, last.why) == (order.to.0, order.why) =>
            {
                last.pages += pages;
            }
            _ => all.push(Ordered { address, pages, node: order.to.0, why: order.why }),
        }
    }
    all
}

/// The destination of the lines.
pub struct Output {
    terminal: Terminal,
    sink: Sink,
    json: bool,
    dry_run: bool,
    verbose: bool,
    machine_wide: BTreeMap<String, String>,
    states: BTreeMap<i32, State>,
    intervals: u64,
    samples: u64,
    pages: u64,
}

impl Output {
    pub fn new(terminal: Terminal, sink: Sink, json: bool, dry_run: bool, verbose: bool) -> Self {
        Self {
            terminal,
            sink,
            json,
            dry_run,
            verbose,
            machine_wide: BTreeMap::new(),
            states: BTreeMap::new(),
            intervals: 0,
            samples: 0,
            pages: 0,
        }
    }

    /// Sets the machine-wide settings that are changed meanwhile.
    pub fn with_machine_wide(mut self, changes: &[Change]) -> Self {
        let named = |change: &Change| (change.setting.to_string(), change.value.clone());
        self.machine_wide = changes.iter().map(named).collect();
        self
    }

    /// Prints the source of the samples, why better sources cannot be used, and what the kernel
    /// does meanwhile.
    pub fn begin(&self, source: &Source, passed_over: &[PassedOver], kernel_collocates: bool) {
        if !self.verbose {
            return;
        }
        for PassedOver { name, why } in passed_over {
            self.say(format_args!("{name} cannot be used: {why}"));
        }
        let kernel = match kernel_collocates {
            true => "; the kernel (AutoNUMA) moves pages to their only user itself",
            false => "",
        };
        self.say(format_args!("samples come from {}{kernel}", source.name()));
    }

    /// Writes an interval. In the text for people, only intervals with news appear.
    pub fn interval(&mut self, line: &Line) -> anyhow::Result<()> {
        self.intervals += 1;
        self.samples += line.metrics.samples;
        self.pages += line.done.as_ref().map_or(0, |done| done.pages as u64);
        let new = self.states.insert(line.pid, line.decision.state) != Some(line.decision.state);
        if self.json {
            let line = Json { line, machine_wide: &self.machine_wide };
            return self.sink.write(&(visible_json(&serde_json::to_string(&line)?) + "\n"));
        }
        if self.dry_run {
            let mut text = String::new();
            for Ordered { address, pages, node, why } in &line.orders {
                let (pid, why) = (line.pid, format!("{why:?}").to_lowercase());
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "process {pid} {why} {pages} pages at {address:#x} to node {node}"
                );
            }
            self.sink.write(&text)?;
        }
        if self.verbose || new || !line.orders.is_empty() {
            self.say(line.text());
        }
        Ok(())
    }

    /// What was moved so far.
    pub const fn moved_bytes(&self) -> u64 {
        self.pages * Page::BYTES
    }

    /// The destination of the lines, which also reports the failure of a recording.
    pub const fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Prints why a process is no longer balanced.
    pub fn leave(&self, pid: i32, error: &MemoryError) {
        self.terminal.warn(format_args!("process {pid} is no longer balanced: {error}"));
    }

    /// Prints a summary.
    pub fn end(&self, lost: u64) {
        if self.intervals == 0 {
            self.say(NOTHING_YET);
            return;
        }
        let lost = match lost {
            0 => String::new(),
            lost => format!(", {lost} more lost"),
        };
        self.say(format_args!(
            "{} moved by {} samples{lost} in {} intervals",
            terminal::bytes(self.moved_bytes()),
            self.samples,
            self.intervals
        ));
    }

    /// Prints that a trace gave the same orders.
    pub fn replayed(&self) {
        self.say(format_args!(
            "{} intervals, all with the orders of the recording",
            self.intervals
        ));
    }

    fn say(&self, what: impl std::fmt::Display) {
        self.terminal.say(format_args!("balance: {what}"));
    }
}
