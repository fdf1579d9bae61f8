//! Runs `run`: from the plan to the exit status of the program.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::effect::Outcome;
use numapilot_place::via::Attesting;
use numapilot_place::{Options, PlaceError, Plan, Prepared, Supervisor, Targets, prepare_targets};
use numapilot_sys::mark;

use super::args::Args;
use super::notices::{announce, finish};
use super::{effects, per_node, via};
use crate::verbs::{launchers, processes};

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let watch = effects::Watch {
            verbose: self.verbose,
            strict: self.strict,
            attest: self.attest.is_some(),
        };
        let (profile, reach) = (self.plan.profile(), self.plan.reach());
        let (plan, raw) = self.plan.plan(terminal, self.strict)?;
        if let Some(template) = &self.via {
            let far = via::Far {
                template,
                attest: self.attest.as_deref(),
                strict: self.strict,
                verbose: self.verbose,
            };
            return far.run(terminal, &plan, &raw, &self.command, self.dry_run);
        }
        if plan != Plan::default() {
            let path = profile.as_ref().map(|(path, _)| path.as_path());
            let remedy = |launcher: &str| launchers::behind(launcher, path);
            launchers::check(terminal, &self.command, remedy, self.strict)?;
        }
        // Settings that cannot be made are attested before they end the run.
        let is_strict = self.strict && self.attest.is_none();
        let options = Options { strict: is_strict, ..Options::default() };
        if self.per_node {
            let instances = per_node::prepare(&plan, &raw, reach, &self.command, &options)?;
            if let (Some((path, asked)), Some(first)) = (&profile, instances.first()) {
                announce(terminal, path.display(), &first.prepared, asked);
            }
            for instance in &instances {
                say(terminal, &instance.prepared, self.verbose.then_some(&instance.plan));
            }
            if self.dry_run {
                return dry_run(terminal, instances.iter().map(|i| &i.prepared));
            }
            return per_node::run(terminal, &instances, self.prefix, watch);
        }
        let targets = Targets::here(&plan, reach)?;
        let mut prepared = prepare_targets(&plan, targets, &self.command, &options)?;
        for (name, value) in raw {
            prepared.set_variable(&name, &value)?;
        }
        if let Some((path, asked)) = &profile {
            announce(terminal, path.display(), &prepared, asked);
        }
        say(terminal, &prepared, self.verbose.then_some(&plan));
        if self.dry_run {
            return dry_run(terminal, std::iter::once(&prepared));
        }
        let attesting = self.attest.as_deref();
        let attesting =
            attesting.map(|directory| Attesting::begin(directory, &plan)).transpose()?;
        let notes = prepared.notes.clone();
        if self.strict && !notes.is_empty() {
            if let Some(attesting) = attesting {
                attesting.finish(notes.iter().cloned().map(Outcome::from).collect())?;
            }
            return Err(PlaceError::Strict(notes).into());
        }
        if !prepared.needs_supervision() && !watch.is_wanted(&prepared) {
            mark::begin_program();
            return Err(prepared.exec().into());
        }
        processes::prefer(
            terminal,
            "neither can threads be placed from outside nor can the plan's effects be seen",
        );
        let supervisor = Supervisor::new()?;
        mark::begin_program();
        let running = prepared.spawn(|_| {})?;
        let effects = watch.start(terminal, &prepared, running.pid(), "");
        let ends = supervisor.wait(vec![running])?;
        let status = finish(terminal, &ends);
        watch.finish(terminal, vec![effects], status, attesting.map(|a| (a, notes)))
    }
}

/// Prints notes, and with a plan also what is done.
fn say(terminal: &Terminal, prepared: &Prepared, plan: Option<&Plan>) {
    if let Some(plan) = plan {
        terminal.say(format_args!("plan: {plan}"));
        for line in prepared.describe() {
            terminal.say(line);
        }
    }
    for note in &prepared.notes {
        terminal.warn(note);
    }
}

pub fn dry_run<'a>(
    terminal: &Terminal,
    all: impl Iterator<Item = &'a Prepared>,
) -> anyhow::Result<ExitCode> {
    let mut out = terminal.out();
    for prepared in all {
        out.write_all(prepared.shell_line().as_bytes())?;
        out.write_all(b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}
