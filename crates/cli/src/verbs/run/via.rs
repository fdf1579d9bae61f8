//! Runs the program by another launcher, which starts `numapilot run` with the plan elsewhere, and
//! checks what the far ends attest.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use numapilot_cli_kit::plan_args::Variable;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::via::{Attestation, Template, Via, judge, read};
use numapilot_place::{Options, Plan, Reach, Supervisor, Targets, prepare_targets};
use numapilot_sys::mark;

use super::notices::finish;
use super::run::dry_run;
use crate::verbs::attestations::Directory;

/// How the program is run elsewhere.
pub struct Far<'a> {
    /// `--via`.
    pub template: &'a Template,
    /// How far the plan may reach.
    pub reach: Reach,
    /// `--attest`.
    pub attest: Option<&'a Path>,
    /// A missing effect is an error.
    pub strict: bool,
    /// What the far ends attest is printed.
    pub verbose: bool,
}

impl Far<'_> {
    /// Runs the command under the plan. The status is that of the launcher.
    pub fn run(
        &self,
        terminal: &Terminal,
        plan: &Plan,
        raw: &[Variable],
        command: &[OsString],
        is_dry: bool,
    ) -> anyhow::Result<ExitCode> {
        let directory = Directory::of(self.attest)?;
        let via = Via::new(self.template.clone(), directory.path())?;
        // A new directory would not be there when the printed command is used.
        let attest = (!is_dry || self.attest.is_some()).then_some(via.directory.as_path());
        let command = via.command(plan, self.reach, raw, attest, self.strict, command);
        let options = Options::default();
        let prepared = prepare_targets(&Plan::default(), Targets::default(), &command, &options)?;
        if is_dry {
            return dry_run(terminal, std::iter::once(&prepared));
        }
        let before = read(&via.directory).context("reading earlier attestations")?;
        let supervisor = Supervisor::new()?;
        mark::begin_program();
        let ends = supervisor.wait(vec![prepared.spawn(|_| {})?])?;
        let status = finish(terminal, &ends);
        let mut attested = read(&via.directory).context("reading the attestations")?;
        attested.retain(|attestation| !before.contains(attestation));
        if self.verbose {
            attested.iter().for_each(|attestation| print(terminal, attestation));
        }
        match judge(plan, &attested) {
            Err(missing) if self.strict => bail!("--via {}: {missing}", self.template),
            Err(missing) => terminal.warn(format_args!("--via {}: {missing}", self.template)),
            Ok(()) => {}
        }
        Ok(status)
    }
}

fn print(terminal: &Terminal, attestation: &Attestation) {
    let Attestation { host, process, plan, settings } = attestation;
    terminal.say(format_args!("{host}, process {process}: plan: {plan}"));
    for outcome in settings.iter().flatten() {
        terminal.say(format_args!("{host}, process {process}: {outcome}"));
    }
}
