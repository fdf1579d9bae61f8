//! `numapilot stat`: the NUMA figures of a run, laid out like `perf stat`.
//!
//! The program's own output is its own: the table goes to standard error, as perf's
//! does, JSON to standard output, and both to a file with `-o`.

mod events;
mod output;
pub(super) mod table;
mod watch;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use numapilot_cli_kit::plan_args::load_profile;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_cli_kit::units;
use numapilot_observe::{Observation, Session};
use numapilot_place::effect::Observer;
use numapilot_place::{Note, Options, Plan, Prepared, Supervisor, prepare};
use numapilot_sys::prctl;
use numapilot_topology::Machine;

use self::output::{Form, Output, Report};
use self::watch::{Watch, Watched};
use super::run::announce;
use crate::verbs::processes;

/// Arguments of `stat`.
#[derive(clap::Args)]
#[command(override_usage = "\
numapilot stat [OPTIONS] COMMAND...
       numapilot stat [OPTIONS] -p PID[,PID] [COMMAND]...
       numapilot stat [OPTIONS] -a [COMMAND]...")]
pub struct Args {
    /// Repeat the run N times; figures become means, with the standard deviation of the runs.
    #[arg(short = 'r', long = "repeat", value_name = "N", default_value_t = 1,
          value_parser = units::whole::<u32>(1..=10_000), conflicts_with_all = ["pid", "all_cpus"])]
    repeat: u32,
    /// Also print the figures of every MS milliseconds.
    #[arg(short = 'I', long = "interval-print", value_name = "MS",
          value_parser = units::whole::<u64>(10..))]
    interval: Option<u64>,
    /// Write the figures to FILE.
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write JSON: one object, or one line for every interval.
    #[arg(long)]
    json: bool,
    /// Print these figures only, in this order: names of the table, or perf's (cycles,
    /// instructions, task-clock, page-faults, ...).
    #[arg(short = 'e', long = "event", value_name = "LIST", value_delimiter = ',',
          value_parser = events::parse, conflicts_with = "json")]
    event: Vec<events::Event>,
    /// Print a line for each figure, with SEP between its fields: value, unit, name.
    #[arg(short = 'x', long, value_name = "SEP", conflicts_with = "json",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    field_separator: Option<String>,
    /// Observe running processes and what descends from them, until they end, Ctrl-C,
    /// --timeout, or until the command ends.
    #[arg(short = 'p', long, value_name = "PID", value_delimiter = ',', conflicts_with = "all_cpus",
          value_parser = units::whole::<i32>(1..))]
    pid: Vec<i32>,
    /// Observe the whole machine, until Ctrl-C, --timeout, or until the command ends.
    #[arg(short = 'a', long)]
    all_cpus: bool,
    /// End after this time, as 90, 90s or 2m; a program that was started here is ended, too.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    timeout: Option<Duration>,
    /// Run the command under the plan of a profile (see run, tune).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "all_cpus"])]
    profile: Option<PathBuf>,
    /// The program and its arguments; with -p or -a, how long to observe (`sleep 5`).
    #[arg(value_name = "COMMAND", trailing_var_arg = true,
          required_unless_present_any = ["pid", "all_cpus"])]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if !self.all_cpus {
            processes::require()?;
        }
        let machine = numapilot_topology::read("/".as_ref())?;
        let form = Form {
            selected: events::metrics(&self.event),
            separator: self.field_separator.clone(),
        };
        let mut output = Output::open(self.output.as_deref(), self.json, form, *terminal)?;
        let signals = Supervisor::new()?;
        if self.pid.is_empty() && !self.all_cpus {
            self.started(&machine, &mut output, &signals)
        } else {
            self.running(&machine, &mut output, &signals)
        }
    }

    fn watch<'a>(&self, output: &'a mut Output, signals: &'a Supervisor) -> Watch<'a> {
        let interval = self.interval.map(Duration::from_millis);
        Watch { signals, interval, timeout: self.timeout, output }
    }

    fn prepare(&self, plan: &Plan, machine: &Machine) -> anyhow::Result<Prepared> {
        Ok(prepare(plan, machine, &self.command, &Options::default())?)
    }

    /// A program that is started here.
    fn started(
        &self,
        machine: &Machine,
        output: &mut Output,
        signals: &Supervisor,
    ) -> anyhow::Result<ExitCode> {
        let plan = match &self.profile {
            Some(path) => load_profile(&output.terminal, path)?,
            None => Plan::default(),
        };
        let prepared = self.prepare(&plan, machine)?;
        // Refused by a filter: what becomes a daemon is not seen then.
        let _ = prctl::adopt_orphans();
        if let Some(path) = &self.profile {
            announce(&output.terminal, path.display(), &prepared, &[]);
        }
        for note in &prepared.notes {
            output.terminal.warn(note);
        }
        // Whatever becomes of the figures, it runs to its end.
        output.program_runs();
        let mut runs: Vec<Observation> = Vec::new();
        let mut report = Report::of_command(&self.command);
        // What was said of one run is not said of the next.
        let mut without: Vec<Note> = Vec::new();
        for _ in 0..self.repeat {
            let mut session = Session::before_exec(machine.node_ids());
            let program = prepared.spawn(|_| {})?;
            let expected = prepared.expected();
            let effects = (!expected.is_empty())
                .then(|| Observer::start(expected, program.pid(), |_| {}))
                .transpose()
                .context("cannot start a thread to see the plan's effects")?;
            session.follow(program.pid());
            report.describe(&session);
            let mut watch = self.watch(output, signals);
            let finished = watch
                .until_end(&mut session, Watched::Target(program))?
                .context("the program was not waited for")?;
            runs.push(session.finish(Some((finished.wall, finished.usage))));
            report.ended(finished.status);
            for seen in effects.map(Observer::finish).unwrap_or_default() {
                match seen.note() {
                    Some(note) if !without.contains(&note) => {
                        output.terminal.warn(&note);
                        without.push(note);
                    }
                    _ => {}
                }
            }
            // Whoever interrupts one run does not want the next.
            if finished.status.signal().is_some() {
                break;
            }
        }
        output.report(report, runs)
    }

    /// Processes, or the machine, that run already.
    fn running(
        &self,
        machine: &Machine,
        output: &mut Output,
        signals: &Supervisor,
    ) -> anyhow::Result<ExitCode> {
        let nodes = machine.node_ids();
        let mut session = if self.all_cpus {
            Session::system(&machine.online_cpus(), nodes)
        } else {
            Session::attach(&self.pid, nodes)?
        };
        let watched = if self.command.is_empty() {
            Watched::Nothing
        } else {
            output.program_runs();
            Watched::Clock(self.prepare(&Plan::default(), machine)?.spawn(|_| {})?)
        };
        let mut report = Report::of_processes(&self.pid);
        report.describe(&session);
        self.watch(output, signals).until_end(&mut session, watched)?;
        let observation = session.finish(None);
        output.report(report, vec![observation])
    }
}
