//! `numapilot tune __serve`: one run of a server in a guest. Prints what its load prints, and a line
//! for the search on the host.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::plan_args::load_profile;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_sys::prctl;
use numapilot_tune::run::{Judge, Limits, Metric, Program, Restart, RunError, Runner, Service};

use super::serve_args::ServeArgs;
use super::server::cpus_apart;
use crate::verbs::processes;

/// The load reads what the guest reads, which is what the host has given to it.
const STDIN: &str = "/dev/stdin";

impl ServeArgs {
    pub fn run(&self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        processes::require()?;
        let plan = load_profile(terminal, &self.profile, false)?;
        let machine = numapilot_topology::read(Path::new("/"))?;
        let service = Service {
            ready: self.ready.clone(),
            ready_timeout: self.ready_timeout,
            stop_timeout: self.stop_timeout,
            load: self.load.clone(),
            cpus: cpus_apart(self.load_cpus.as_deref(), &machine)?,
            restart: Restart::Plan,
        };
        let program = Program {
            command: self.command.clone(),
            stdin: Some(PathBuf::from(STDIN)),
            prepare: None,
            via: None,
            cleanup: None,
            service: Some(service),
            timeout: None,
            progress: None,
        };
        // The search on the host judges the run.
        let judge = Judge::new(Metric::WallTime, None, Limits::default());
        let interrupted = interruption::flag()?;
        // If a filter refuses this, daemons that have cleared their environment are not ended.
        let _ = prctl::adopt_orphans();
        let mut runner = Runner::new(&machine, program, judge, &interrupted);
        let (load, server) = match runner.serve(&plan) {
            Ok(served) => served,
            Err(RunError::Interrupted) => return Ok(interruption::status()),
            Err(error) => return Err(error.into()),
        };
        let separator = if load.is_empty() || load.ends_with('\n') { "" } else { "\n" };
        let line = server.line()?;
        let mut out = terminal.out();
        writeln!(out, "{load}{separator}{line}")
            .and_then(|()| out.flush())
            .context("cannot write the output of the load")?;
        Ok(ExitCode::SUCCESS)
    }
}
