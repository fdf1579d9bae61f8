//! Runs `advise`: measures, applies the rules and prints.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use numapilot_advise::advise;
use numapilot_cli_kit::file;
use numapilot_cli_kit::settle::held_settings;
use numapilot_cli_kit::terminal::{Terminal, is_broken_pipe};
use numapilot_place::{Options, Plan, Supervisor, prepare};
use numapilot_sys::affinity;
use numapilot_topology::{CpuSet, Machine};
use procfs::process::Process;

use super::args::Args;
use super::evidence::evidence;
use super::json::{Subject, json};
use super::measure::{Measured, running, started};
use super::text::text;
use crate::sink::Sink;
use crate::verbs::exit_code::exit_code;
use crate::verbs::processes;

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        processes::require()?;
        let mut machine = numapilot_topology::read("/".as_ref())?;
        let mut sink = match &self.output {
            Some(path) => Sink::file(*terminal, path.clone(), file::open(path, 0o666)?),
            None if self.json => Sink::out(*terminal),
            None => Sink::err(*terminal),
        };
        let signals = Supervisor::new()?;
        let (measured, command) = match self.pid {
            Some(pid) => {
                let command = command_of(pid)?;
                narrow(&mut machine, pid);
                (running(pid, &machine, &signals, self.timeout)?, command)
            }
            None => {
                let plan = Plan::default();
                let prepared = prepare(&plan, &machine, &self.command, &Options::default())?;
                sink.program_runs();
                (started(&prepared, &machine, &signals, self.timeout)?, self.command.clone())
            }
        };
        sink.program_ended();
        self.report(&mut sink, terminal, &machine, &measured, &command)
    }

    fn report(
        &self,
        sink: &mut Sink,
        terminal: &Terminal,
        machine: &Machine,
        measured: &Measured,
        command: &[OsString],
    ) -> anyhow::Result<ExitCode> {
        let held = held_settings(terminal);
        let exit_status = measured.status.map(exit_code);
        if let Some(code) = exit_status.filter(|code| *code != 0) {
            terminal.warn(format_args!(
                "the program ended with status {code}: the advice is about a run that failed"
            ));
        }
        let run = evidence(measured, machine, command);
        let advice = advise(&run, self.allow_machine_wide);
        let words: Vec<String> =
            command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let text = if self.json {
            let command = self.pid.is_none().then_some(words.as_slice());
            let subject = Subject { command, pid: self.pid, exit_status, held: &held };
            json(&subject, &run, &advice)?
        } else {
            let title = match self.pid {
                Some(pid) => format!("process {pid}"),
                None => format!("'{}'", words.join(" ")),
            };
            text(&title, &words, &run, &advice)
        };
        let status = ExitCode::from(exit_status.unwrap_or(0));
        match sink.write(&text) {
            // If the reader went away, the program's status still counts.
            Err(error) if is_broken_pipe(&error) => Ok(status),
            Err(error) if exit_status.is_some() => {
                terminal.warn(format_args!("{error:#}; the exit status is the program's"));
                Ok(status)
            }
            written => written.map(|()| status),
        }
    }
}

/// The command line of a process, with the file that it executes in place of its first word.
fn command_of(pid: i32) -> anyhow::Result<Vec<OsString>> {
    let inspect = || -> procfs::ProcResult<Vec<OsString>> {
        let process = Process::new(pid)?;
        let arguments = process.cmdline()?.into_iter().skip(1).map(OsString::from);
        Ok([process.exe()?.into_os_string()].into_iter().chain(arguments).collect())
    };
    inspect().with_context(|| {
        format!(
            "process {pid} cannot be inspected: it has ended, or belongs to another user (root may)"
        )
    })
}

/// Leaves the CPUs on which the process may run.
fn narrow(machine: &mut Machine, pid: i32) {
    if let Ok(words) = affinity::get(pid) {
        machine.allowed.cpus = CpuSet::from_words(&words);
    }
}
