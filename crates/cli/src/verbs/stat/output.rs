//! Writes the figures, and the text around them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::Context;
use numapilot_cli_kit::file;
use numapilot_cli_kit::settle::held_settings;
use numapilot_cli_kit::terminal::{Terminal, is_broken_pipe};
use numapilot_observe::{Metric, Observation, Session, Summary};
use numapilot_place::settings_journal::Holder;
use numapilot_place::visible_json;
use serde::{Serialize, Serializer};

use super::text;
use crate::sink::Sink;
use crate::verbs::exit_code::exit_code;
use crate::verbs::watch::Reader;

/// What was observed and how, in addition to the figures.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The command that was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// The processes that were observed; empty for the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pids: Option<Vec<i32>>,
    /// The exit status of the command, or 128 plus the signal that ended it.
    exit_status: Option<u8>,
    /// Runs of the command that failed; their figures are in the means.
    failed_runs: usize,
    /// The events that count DRAM accesses on this machine.
    dram_events: Option<DramEvents>,
    /// Whether hardware events exclude the kernel.
    user_only: bool,
    /// Whether they come from an emulated machine, and are machine-wide.
    emulated: bool,
}

/// The entry of the event table that was used.
#[derive(Debug, Serialize)]
struct DramEvents {
    processor: &'static str,
    events: Vec<&'static str>,
    counts: &'static str,
    source: &'static str,
}

impl Report {
    pub fn of_command(command: &[OsString]) -> Self {
        let words = command.iter().map(|w| w.to_string_lossy().into_owned()).collect();
        Self { command: Some(words), ..Self::default() }
    }

    pub fn of_processes(pids: &[i32]) -> Self {
        Self { pids: Some(pids.to_vec()), ..Self::default() }
    }

    /// Records what the counters mean.
    pub fn describe(&mut self, session: &Session) {
        let counters = session.counters();
        self.emulated = session.lab().is_some();
        self.user_only = self.emulated || counters.user_only();
        self.dram_events = counters.dram_model().map(|model| DramEvents {
            processor: model.name,
            events: model.events().map(|e| e.name).collect(),
            counts: model.counts,
            source: model.source,
        });
    }

    /// Records the end of a run. If several runs fail, the first one counts.
    pub fn ended(&mut self, status: ExitStatus) {
        let code = exit_code(status);
        self.failed_runs += usize::from(code != 0);
        if self.exit_status.is_none_or(|previous| previous == 0) {
            self.exit_status = Some(code);
        }
    }

    /// Why fields are `null`.
    fn reasons<'a>(&self, figures: &'a Observation) -> BTreeMap<&'static str, &'a str> {
        let mut reasons = BTreeMap::new();
        if self.dram_events.is_none() {
            // An emulated machine counts all accesses without an event of a processor.
            let reason = figures.figure(Metric::LocalAccesses).err();
            reasons.insert("dram_events", reason.unwrap_or("only a hardware PMU has such events"));
        }
        if self.command.is_none() {
            reasons.insert("exit_status", "no command was observed, but what runs already");
        }
        reasons
    }

    /// The subject of the table.
    fn title(&self) -> String {
        match (&self.command, &self.pids) {
            (Some(command), _) => format!("'{}'", command.join(" ")),
            (None, Some(pids)) if !pids.is_empty() => {
                let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
                format!("process {}", pids.join(", "))
            }
            _ => "the whole machine".to_owned(),
        }
    }
}

/// All fields on one level, figures first.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    figures: Explained<'a>,
    #[serde(flatten)]
    report: &'a Report,
    repetitions: usize,
    /// Settings that other runs of numapilot held meanwhile.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    held_settings: &'a [Holder],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    statistics: BTreeMap<Metric, Summary>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    runs: &'a [Observation],
}

/// The figures, and why fields beside them are `null`.
struct Explained<'a> {
    figures: &'a Observation,
    reasons: BTreeMap<&'static str, &'a str>,
}

impl Serialize for Explained<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.figures.serialize_with(&self.reasons, serializer)
    }
}

/// The last line of `-I` in JSON. The figures are on a level of their own: a sum over the lines would
/// count them twice.
#[derive(Serialize)]
struct Total<'a> {
    total: Json<'a>,
}

/// One line of `-I` in JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// End of the interval, since the observation began.
    time: f64,
    #[serde(flatten)]
    figures: &'a Observation,
}

/// The destination of the figures.
pub struct Output {
    sink: Sink,
    json: bool,
    /// For warnings.
    pub terminal: Terminal,
    rows: text::Rows,
    intervals: bool,
    form: Form,
}

/// The form of the figures, except in JSON.
#[derive(Debug, Default)]
pub struct Form {
    /// Only these figures, unless empty.
    pub selected: Vec<Metric>,
    /// Print lines of fields with this separator.
    pub separator: Option<String>,
}

impl Output {
    /// # Errors
    /// Fails if the file cannot be created, before anything is run.
    pub fn open(
        path: Option<&Path>,
        json: bool,
        form: Form,
        terminal: Terminal,
    ) -> anyhow::Result<Self> {
        let sink = match path {
            Some(path) => Sink::file(terminal, path.to_owned(), file::open(path, 0o666)?),
            None if json => Sink::out(terminal),
            None => Sink::err(terminal),
        };
        Ok(Self { sink, json, terminal, rows: text::Rows::default(), intervals: false, form })
    }

    /// Call this when a program of the user starts; from then on, a failed write does not end it.
    pub fn program_runs(&mut self) {
        self.sink.program_runs();
    }

    /// Writes the figures of all runs.
    ///
    /// # Errors
    /// Fails if they cannot be written, and no program was run whose status would be lost.
    pub fn report(&mut self, report: Report, runs: Vec<Observation>) -> anyhow::Result<ExitCode> {
        let status = ExitCode::from(report.exit_status.unwrap_or(0));
        let (mean, statistics) = Observation::mean(&runs).context("nothing was observed")?;
        let repeated = runs.len() > 1;
        if repeated && report.failed_runs > 0 {
            self.terminal.warn(format!(
                "{} of {} runs failed (the first with exit status {}), and their figures are in the \
                 means",
                report.failed_runs,
                runs.len(),
                report.exit_status.unwrap_or(0)
            ));
        }
        let held = held_settings(&self.terminal);
        // As with perf, the intervals are the output: a total would be counted twice.
        if self.form.separator.is_some() && self.intervals {
            return Ok(status);
        }
        let text = if self.json {
            let runs_detail: &[Observation] = if repeated { &runs } else { &[] };
            let statistics = if repeated { statistics } else { BTreeMap::new() };
            let json = Json {
                held_settings: &held,
                figures: Explained { figures: &mean, reasons: report.reasons(&mean) },
                report: &report,
                repetitions: runs.len(),
                statistics,
                runs: runs_detail,
            };
            let text = if self.intervals {
                serde_json::to_string(&Total { total: json })?
            } else {
                serde_json::to_string_pretty(&json)?
            };
            visible_json(&text) + "\n"
        } else if let Some(separator) = &self.form.separator {
            let statistics = if repeated { statistics } else { BTreeMap::new() };
            text::separated(separator, None, &mean, &statistics, &self.form.selected)
        } else {
            let selected = &self.form.selected;
            text::report(&report.title(), &mean, &statistics, runs.len(), selected, &held)
        };
        self.sink.program_ended();
        match self.sink.write(&text) {
            // If the reader went away, the program's status still counts.
            Err(error) if is_broken_pipe(&error) => Ok(status),
            // The same holds if there is no space for the figures.
            Err(error) if report.command.is_some() => {
                self.terminal.warn(format_args!("{error:#}; the exit status is the program's"));
                Ok(status)
            }
            Err(error) => Err(error),
            Ok(()) => Ok(status),
        }
    }
}

impl Reader for Output {
    fn interval(&mut self, time: f64, figures: &Observation) -> anyhow::Result<()> {
        self.intervals = true;
        let text = if self.json {
            visible_json(&serde_json::to_string(&Line { time, figures })?) + "\n"
        } else if let Some(separator) = &self.form.separator {
            let none = BTreeMap::new();
            text::separated(separator, Some(time), figures, &none, &self.form.selected)
        } else if self.form.selected.is_empty() {
            self.rows.row(time, figures)
        } else {
            text::interval(time, figures, &self.form.selected)
        };
        self.sink.write(&text)
    }
}
