//! Runs `run`: from the plan to the exit status of the program.

use std::collections::BTreeMap;
use std::process::ExitCode;

use numapilot_cli_kit::plan_args::Variable;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::effect::Outcome;
use numapilot_place::plan::NAME_VARIABLE;
use numapilot_place::via::Attesting;
use numapilot_place::{Options, PlaceError, Plan, Prepared, Supervisor, Targets, prepare_targets};
use numapilot_sys::mark;

use super::args::Args;
use super::notices::{announce, dry_run};
use super::{effects, per_node, via};
use crate::verbs::launchers::{self, Launcher};
use crate::verbs::processes;

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let watch = effects::Watch {
            verbose: self.verbose,
            strict: self.strict,
            attest: self.attest.is_some(),
        };
        let (profile, reach) = (self.plan.profile(), self.plan.reach());
        if let Some(template) = &self.via {
            let (plan, raw, measured) = self.plan.clone().plan_elsewhere(terminal)?;
            let far = via::Far {
                measured,
                template,
                reach,
                attest: self.attest.as_deref(),
                count: self.via_count,
                strict: self.strict,
                verbose: self.verbose,
            };
            return far.run(terminal, &plan, &raw, &self.command, self.dry_run);
        }
        let (plan, raw) = self.plan.clone().plan(terminal, self.strict)?;
        if plan != Plan::default() {
            let path = profile.as_ref().map(|(path, _)| path.as_path());
            let remedy = |launcher: &Launcher| launchers::behind(launcher, path);
            launchers::check(terminal, &self.command, remedy, self.strict)?;
        }
        if self.per_node {
            let options = Options { strict: self.strict, ..Options::default() };
            let mut instances = per_node::prepare(&plan, &raw, reach, &self.command, &options)?;
            if let (Some((path, asked)), Some(first)) = (&profile, instances.first()) {
                announce(terminal, path.display(), &first.prepared, asked);
            }
            for instance in &instances {
                say(terminal, &instance.prepared, self.verbose.then_some(&instance.plan));
            }
            if self.dry_run {
                return dry_run(terminal, instances.iter().map(|i| &i.prepared));
            }
            for instance in &mut instances {
                name_plan(&mut instance.prepared, &instance.plan, &raw)?;
            }
            return per_node::run(terminal, &instances, self.prefix, watch);
        }
        let mut outcomes = Vec::new();
        let Some(directory) = self.attest.as_deref().filter(|_| !self.dry_run) else {
            return self.under_plan(terminal, &plan, &raw, watch, &mut outcomes);
        };
        let attesting = Attesting::begin(directory, &plan)?;
        let result = self.under_plan(terminal, &plan, &raw, watch, &mut outcomes);
        if let Err(error) = &result {
            outcomes.push(Outcome::failed(format!("{error:#}")));
        }
        attesting.finish(outcomes)?;
        result
    }

    /// Runs one instance, and adds what took effect to the outcomes.
    fn under_plan(
        &self,
        terminal: &Terminal,
        plan: &Plan,
        raw: &[Variable],
        watch: effects::Watch,
        outcomes: &mut Vec<Outcome>,
    ) -> anyhow::Result<ExitCode> {
        let targets = Targets::here(plan, self.plan.reach())?;
        let options = Options { strict: self.strict, ..Options::default() };
        let mut prepared = prepare_targets(plan, targets, &self.command, &options)?;
        for (name, value) in raw {
            prepared.set_variable(name, value)?;
        }
        if let Some((path, asked)) = &self.plan.profile() {
            announce(terminal, path.display(), &prepared, asked);
        }
        say(terminal, &prepared, self.verbose.then_some(plan));
        if self.dry_run {
            return dry_run(terminal, std::iter::once(&prepared));
        }
        name_plan(&mut prepared, plan, raw)?;
        if !prepared.needs_supervision() && !watch.is_wanted(&prepared) {
            mark::begin_program();
            return Err(prepared.exec().into());
        }
        outcomes.extend(prepared.notes.iter().cloned().map(Outcome::from));
        processes::prefer(
            terminal,
            "neither can threads be placed from outside nor can the plan's effects be seen",
        );
        let supervisor = Supervisor::new()?;
        mark::begin_program();
        let running = prepared.spawn(|_| {})?;
        let effects = watch.start(terminal, &prepared, &running, "");
        let ends = supervisor.wait(vec![running])?;
        watch.finish(terminal, vec![effects], &ends, outcomes)
    }
}

/// Names the plan in the environment of the program, so that it can be asked of the running one,
/// unless the user gives that variable. The user's variables are left out: they may be secret, and
/// `export-metrics` shows the name.
fn name_plan(prepared: &mut Prepared, plan: &Plan, raw: &[Variable]) -> Result<(), PlaceError> {
    let is_given =
        plan.env.contains_key(NAME_VARIABLE) || raw.iter().any(|(name, _)| name == NAME_VARIABLE);
    let plan = Plan { env: BTreeMap::new(), ..plan.clone() };
    if is_given || plan == Plan::default() {
        return Ok(());
    }
    prepared.set_variable(NAME_VARIABLE.as_ref(), plan.to_string().as_ref())
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
