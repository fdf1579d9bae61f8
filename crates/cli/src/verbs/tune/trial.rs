//! `numapilot tune trial --plan FILE`: measures one plan against the default, in pairs of runs.
//!
//! A search over other things than plans, such as options of a program, is the work of an outside
//! optimiser. It writes each candidate as a profile and asks here for the ratio. The runs of a pair
//! follow each other, so what changes with the hours cancels out; pairs alternate in their order.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::plan_args::load_profile;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::Plan;
use numapilot_sys::prctl;
use numapilot_tune::evidence::{Order, Phase, Trial};
use numapilot_tune::run::{RunError, Runner};
use numapilot_tune::shape::DEFAULT;

use super::input::Input;
use super::measure::limits;
use super::pair::{Outcome, PLAN};
use super::rows::here;
use super::server::stop_server;
use super::setup::metric_name;
use super::trial_args::TrialArgs;
use crate::verbs::{attestations, processes};

/// Exit status if the plan has no figure.
const WITHOUT_FIGURE: u8 = 1;

impl TrialArgs {
    pub fn run(&self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        processes::require()?;
        if self.measure.lab.is_some() {
            bail!("tune trial measures on this machine; use numapilot tune --lab with --plan");
        }
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        if let Some(path) = &self.parquet {
            file::check(path, existing).context("the runs (--parquet FILE)")?;
        }
        let plan = load_profile(terminal, &self.plan, false)?;
        let machine = numapilot_topology::read(Path::new("/"))?;
        let input = Input::of(self.measure.stdin.as_deref())?;
        let attest = self.measure.attest.as_deref();
        let via = self.measure.via.as_ref();
        let via = via
            .map(|template| attestations::via(template, attest, self.measure.via_count))
            .transpose()?;
        let command = self.server.server.as_ref().map_or(&self.command, |server| &server.words);
        self.server.check_limits(&limits(&self.measure.limit))?;
        let service = self.server.service(&machine)?;
        let program = self.measure.program(command, &input, via, service);
        let (metric, judge) = self.measure.judge(program.service.is_some())?;
        let interrupted = interruption::flag()?;
        // If a filter refuses this, daemons that have cleared their environment are not ended.
        let _ = prctl::adopt_orphans();
        let mut runner = Runner::new(&machine, program, judge, &interrupted);
        self.check(&runner, &plan)?;
        let evidence = self.measure(&mut runner, &plan);
        stop_server(terminal, &mut runner)?;
        let evidence = match evidence {
            Ok(evidence) => evidence,
            Err(RunError::Interrupted) => return Ok(interruption::status()),
            Err(error) => return Err(error.into()),
        };
        let (metric, goal) = (metric_name(&metric), self.measure.goal());
        if let Some(path) = &self.parquet {
            let name = |trial: &Trial| match trial.order.candidate {
                DEFAULT => Plan::default().to_string(),
                _ => plan.to_string(),
            };
            let rows = here(&machine, command, &metric, goal).rows(&evidence, name);
            file::put_bytes(path, &numapilot_trials::parquet(&rows)?, existing)?;
        }
        let outcome = Outcome::of(&plan, metric, goal, self.confidence, &evidence)?;
        if self.json {
            terminal.json(&outcome)?;
        } else {
            outcome.print(terminal)?;
        }
        Ok(match outcome.has_figure() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(WITHOUT_FIGURE),
        })
    }

    /// Fails if the plan cannot be applied in full.
    fn check(&self, runner: &Runner<'_>, plan: &Plan) -> anyhow::Result<()> {
        let path = self.plan.display();
        let changes = runner
            .applies(plan)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("--plan {path}"))?;
        if let (Some(change), false) = (changes.first(), self.allow_machine_wide) {
            bail!(
                "--plan {path} sets {change} for the whole machine; --allow-machine-wide lets it, for \
                 the time of each run"
            );
        }
        Ok(())
    }

    /// Makes all runs.
    fn measure(&self, runner: &mut Runner<'_>, plan: &Plan) -> Result<Vec<Trial>, RunError> {
        let mut evidence: Vec<Trial> = Vec::new();
        let warm_up = (0..self.warmup).map(|block| (Phase::WarmUp, block, DEFAULT));
        let pairs = (0..self.rounds).flat_map(|block| {
            let pair = if block % 2 == 0 { [DEFAULT, PLAN] } else { [PLAN, DEFAULT] };
            pair.map(|candidate| (Phase::Race, block, candidate))
        });
        for (phase, block, candidate) in warm_up.chain(pairs) {
            runner.learn(&evidence, None);
            let default = Plan::default();
            let under = if candidate == DEFAULT { &default } else { plan };
            evidence.push(runner.run(Order { phase, block, candidate }, under)?);
        }
        Ok(evidence)
    }
}
