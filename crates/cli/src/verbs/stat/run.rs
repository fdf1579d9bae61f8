//! Runs `stat`: starts or attaches, counts and prints.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use numapilot_cli_kit::plan_args::load_profile;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_observe::{Observation, Session};
use numapilot_place::effect::{Observer, Seen};
use numapilot_place::via::{RunDirectory, Template, Via};
use numapilot_place::{Note, Options, Plan, Prepared, Reach, Supervisor, prepare};
use numapilot_sys::prctl;
use numapilot_topology::Machine;

use super::args::Args;
use super::events;
use super::output::{Form, Output, Report};
use crate::verbs::launchers::{self, Launcher};
use crate::verbs::run::announce;
use crate::verbs::selection::Oneself;
use crate::verbs::watch::{Watch, Watched};
use crate::verbs::{attestations, processes};

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
        if self.selection.is_empty() && !self.all_cpus {
            self.started(&machine, &mut output, &signals)
        } else {
            self.running(&machine, &mut output, &signals)
        }
    }

    fn watch<'a>(&self, output: &'a mut Output, signals: &'a Supervisor) -> Watch<'a, Output> {
        let interval = self.interval.map(Duration::from_millis);
        Watch { signals, interval, timeout: self.timeout, reader: output }
    }

    /// The launcher that starts the program elsewhere, and where the far ends attest. The directory
    /// is removed when it is dropped, unless the user named it.
    fn far(&self, template: &Template) -> anyhow::Result<(RunDirectory, Via)> {
        let via = attestations::via(template, self.attest.as_deref(), self.via_count)?;
        let directory = attestations::begin(&via, self.attest.is_some())?;
        Ok((directory, via))
    }

    fn prepare(&self, plan: &Plan, machine: &Machine) -> anyhow::Result<Prepared> {
        Ok(prepare(plan, machine, &self.command, &Options::default())?)
    }

    /// Starts the program and observes it.
    fn started(
        &self,
        machine: &Machine,
        output: &mut Output,
        signals: &Supervisor,
    ) -> anyhow::Result<ExitCode> {
        let plan = match &self.profile {
            Some(path) => load_profile(&output.terminal, path, false)?,
            None => Plan::default(),
        };
        let far = self.via.as_ref().map(|template| self.far(template)).transpose()?;
        let prepared = match &far {
            Some((directory, via)) => {
                let attest = Some(directory.path());
                let command =
                    via.command(&plan, Reach::Allowed, &[], attest, false, &self.command)?;
                prepare(&Plan::default(), machine, &command, &Options::default())?
            }
            None => self.prepare(&plan, machine)?,
        };
        // If a filter refuses this, processes that become daemons are not seen.
        let _ = prctl::adopt_orphans();
        if let Some(path) = &self.profile {
            if self.via.is_none() {
                let remedy = |launcher: &Launcher| launchers::behind(launcher, Some(path));
                launchers::check(&output.terminal, &self.command, remedy, false)?;
            }
            announce(&output.terminal, path.display(), &prepared, &[]);
        }
        for note in &prepared.notes {
            output.terminal.warn(note);
        }
        // The program runs to its end even if the output fails.
        output.program_runs();
        let mut runs: Vec<Observation> = Vec::new();
        let mut report = Report::of_command(&self.command);
        // A note that was printed for one run is not repeated for the next.
        let mut without: Vec<Note> = Vec::new();
        let mut has_failed = false;
        for _ in 0..self.repeat {
            let mut session = Session::before_exec(machine.node_ids());
            let program = prepared.spawn(|_| {})?;
            let expected = prepared.expected();
            let effects = (!expected.is_empty())
                .then(|| Observer::start(expected, &program, |_| {}))
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
            has_failed |= !finished.status.success();
            let daemons = finished.daemons.into_iter().map(Seen::from);
            for seen in effects.map(Observer::finish).unwrap_or_default().into_iter().chain(daemons)
            {
                match seen.note() {
                    Some(note) if !without.contains(&note) => {
                        output.terminal.warn(&note);
                        without.push(note);
                    }
                    _ => {}
                }
            }
            // An interrupted run ends the repetition.
            if finished.status.signal().is_some() {
                break;
            }
        }
        if let Some((directory, via)) = &far
            && let Some(missing) =
                attestations::missing(via, directory, &plan, runs.len(), has_failed, |_| {})
        {
            output.terminal.warn(missing);
        }
        output.report(report, runs)
    }

    /// Observes running processes or the machine.
    fn running(
        &self,
        machine: &Machine,
        output: &mut Output,
        signals: &Supervisor,
    ) -> anyhow::Result<ExitCode> {
        let nodes = machine.node_ids();
        let (pids, mut session) = if self.all_cpus {
            (Vec::new(), Session::system(&machine.online_cpus(), nodes))
        } else {
            let attach = |pids: &[i32]| Session::attach(pids, nodes.clone());
            self.selection.attach(Oneself::Observed, attach)?
        };
        let watched = if self.command.is_empty() {
            Watched::Nothing
        } else {
            output.program_runs();
            Watched::Clock(self.prepare(&Plan::default(), machine)?.spawn(|_| {})?)
        };
        let mut report = Report::of_processes(&pids);
        report.describe(&session);
        self.watch(output, signals).until_end(&mut session, watched)?;
        let observation = session.finish(None);
        output.report(report, vec![observation])
    }
}
