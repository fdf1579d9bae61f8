//! Runs the program by another launcher, which starts `numapilot run` with the plan elsewhere, and
//! checks what the far ends attest.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use numapilot_cli_kit::plan_args::Variable;
use numapilot_cli_kit::terminal::{Terminal, printable};
use numapilot_place::via::{Attestation, Template};
use numapilot_place::{Measured, Options, Plan, Reach, Supervisor, Targets, prepare_targets};
use numapilot_sys::mark;

use super::notices::{dry_run, finish};
use crate::verbs::attestations;

/// How the program is run elsewhere.
pub struct Far<'a> {
    /// `--via`.
    pub template: &'a Template,
    /// Where the profile was measured.
    pub measured: Option<Measured>,
    /// How far the plan may reach.
    pub reach: Reach,
    /// `--attest`.
    pub attest: Option<&'a Path>,
    /// `--via-count`.
    pub count: Option<u32>,
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
        let via = attestations::via(self.template, self.attest, self.count)?;
        // The directory of a run would not be there when the printed command is used.
        let directory =
            (!is_dry).then(|| attestations::begin(&via, self.attest.is_some())).transpose()?;
        let attest = match &directory {
            Some(directory) => Some(directory.path()),
            None => self.attest.is_some().then_some(via.directory()),
        };
        let command = via.command(plan, self.reach, raw, attest, self.strict, command)?;
        let options = Options::default();
        let prepared = prepare_targets(&Plan::default(), Targets::default(), &command, &options)?;
        let Some(directory) = directory else {
            return dry_run(terminal, std::iter::once(&prepared));
        };
        let supervisor = Supervisor::new()?;
        mark::begin_program();
        let ends = supervisor.wait(vec![prepared.spawn(|_| {})?])?;
        let status = finish(terminal, &ends);
        let elsewhere = RefCell::new(Vec::new());
        let each = |attestation: &Attestation| {
            if self.verbose {
                print(terminal, attestation);
            }
            elsewhere.borrow_mut().extend(self.elsewhere(attestation));
        };
        let has_failed = status != ExitCode::SUCCESS;
        if let Some(missing) = attestations::missing(&via, &directory, plan, 1, has_failed, each) {
            if self.strict {
                bail!("{missing}");
            }
            terminal.warn(missing);
        }
        let mut elsewhere = elsewhere.into_inner();
        elsewhere.sort_unstable();
        elsewhere.dedup();
        match elsewhere.first() {
            Some(first) if self.strict => bail!("{first}"),
            Some(_) => elsewhere.iter().for_each(|text| terminal.warn(text)),
            None => {}
        }
        Ok(status)
    }

    /// Says that the machine of a far end is of another topology than that of the profile.
    fn elsewhere(&self, attestation: &Attestation) -> Option<String> {
        let topology = attestation.topology.as_deref()?;
        let note = self.measured.as_ref()?.differs_from(topology)?;
        Some(printable(&format!("{}: {note}", attestation.host)))
    }
}

fn print(terminal: &Terminal, attestation: &Attestation) {
    let Attestation { plan, settings, .. } = attestation;
    let place = attestation.place();
    let say = |text: &str| terminal.say(printable(&format!("{place}: {text}")));
    say(&format!("plan: {plan}"));
    for outcome in settings.iter().flatten() {
        say(&outcome.to_string());
    }
}
