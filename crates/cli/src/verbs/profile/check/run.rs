//! Runs `profile check`.

use std::io::{self, BufRead, BufReader};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, bail};
use numapilot_cli_kit::plan_args::load_profile;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::effect::{Observer, Outcome, Seen, State};
use numapilot_place::{Options, Plan, Reach, Targets, prepare_targets};

use super::super::args::CheckArgs;
use super::text;
use crate::verbs::processes;
use crate::verbs::run::announce;

/// Exit status if a setting has no effect.
const WITHOUT_EFFECT: u8 = 1;
/// Effects are reported within this time, unless the machine is overloaded.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `profile check`.
pub fn run(args: &CheckArgs, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    processes::require()?;
    let plan = load_profile(terminal, &args.profile, false)?;
    let outcomes = outcomes(args, terminal, &plan)?;
    if args.json {
        terminal.json(&outcomes)?;
    } else {
        text::write(&mut terminal.out(), &outcomes, terminal.width())?;
    }
    let fails = outcomes.iter().any(|outcome| outcome.state == State::NotInEffect);
    Ok(if fails { ExitCode::from(WITHOUT_EFFECT) } else { ExitCode::SUCCESS })
}

/// Starts the probe under the plan and inspects it.
fn outcomes(args: &CheckArgs, terminal: &Terminal, plan: &Plan) -> anyhow::Result<Vec<Outcome>> {
    let own = std::env::current_exe().context("the file of this program is not known")?;
    let command = [own.into(), "profile".into(), "probe".into()];
    let targets = Targets::here(plan, Reach::Allowed)?;
    let prepared = prepare_targets(plan, targets, &command, &Options::default())?;
    announce(terminal, args.profile.display(), &prepared, &[]);
    let (input, end) = io::pipe()?;
    let (ready, output) = io::pipe()?;
    let program = prepared.spawn(|command| {
        command.stdin(input).stdout(output);
    })?;
    // It ends without this line if it fails.
    let mut line = String::new();
    BufReader::new(ready).read_line(&mut line)?;
    let (report, reported) = channel();
    let observer = Observer::start(prepared.expected(), &program, move |seen| {
        // Nobody listens when it comes too late.
        let _ = report.send(seen);
    })
    .context("the plan's effects cannot be seen")?;
    // Without a report, what was seen by then counts.
    let _ = reported.recv_timeout(PATIENCE);
    drop(end);
    let finished = program.wait(Some(PATIENCE))?;
    let seen = observer.finish();
    if !finished.status.success() {
        bail!(
            "the small program that is started under the plan failed ({}); run it by hand: \
             numapilot run --profile {} -- true",
            finished.status,
            args.profile.display()
        );
    }
    let notes = finished.threads.iter().flat_map(|threads| threads.notes());
    let notes: Vec<Outcome> = prepared.notes.into_iter().chain(notes).map(Outcome::from).collect();
    // A setting with a note was not expected to be seen, except for part of it.
    let seen =
        seen.into_iter().chain(finished.daemons.into_iter().map(Seen::from)).map(Outcome::from);
    Ok(seen.chain(notes).collect())
}
