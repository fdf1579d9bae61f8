//! Runs `tune`, from the first check to the report.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::settle::{self, Measured};
use numapilot_cli_kit::terminal::{Terminal, plural, seconds};
use numapilot_place::PlaceError;
use numapilot_sys::prctl;
use numapilot_tune::decide::{Settings, Stop, too_few_runs};
use numapilot_tune::evidence::{Failure, Trial};
use numapilot_tune::report::Report;
use numapilot_tune::run::RunError;
use numapilot_tune::search::{SearchError, search};

use super::args::Args;
use super::files::Origin;
use super::prior;
use super::progress::Progress;
use super::server::stop_server;
use super::setup::Setup;
use super::text;
use super::written::Written;
use crate::verbs::launchers::{self, Launcher};
use crate::verbs::processes;

/// Runs `numapilot tune`.
pub fn run(args: &Args, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    processes::require()?;
    let outputs = args.files.check()?;
    let is_here = args.measure.lab.is_none();
    if is_here
        && !args.measure.allow_held_settings
        && let Some(holder) = settle::holders().first()
    {
        bail!(
            "{holder}: every run would be measured under that; wait for its end, or give \
             --allow-held-settings; the report and the profile then name the setting"
        );
    }
    // Settings of this host do not reach an emulated machine.
    let held_settings = || if is_here { settle::held_settings(terminal) } else { Vec::new() };
    let held = held_settings();
    let mut setup = match Setup::new(terminal, args) {
        Ok(setup) => setup,
        Err(error) => return launch_error(terminal, args, error),
    };
    let load = args.server.load.as_deref();
    if args.measure.via.is_none() {
        let remedy = |launcher: &Launcher| match load {
            None => {
                format!("give it by --via: numapilot tune --via {} -- COMMAND", launcher.via())
            }
            Some(_) => "give --server the command of the server itself".to_owned(),
        };
        launchers::check(terminal, args.command(), remedy, false)?;
    }
    if !args.files.resume {
        prior::check(terminal, args, &setup)?;
    }
    let interrupted = interruption::flag()?;
    // Guests leave no process on this host, and run side by side: whoever adopts orphans must have
    // one child at a time, or takes one guest for an orphan of another.
    if is_here {
        // If a filter refuses this, daemons that have cleared their environment are not ended.
        let _ = prctl::adopt_orphans();
    }
    let directory = args.state()?;
    let (mut journal, past) = numapilot_tune::journal::Journal::open(
        &directory,
        &setup.fingerprint(args, &held),
        args.files.resume,
    )?;
    let mut evidence = past.trials;
    text::start(terminal, &setup, journal.path(), evidence.len());
    // Released when dropped, and after a crash like every entry of the settings journal.
    let _reserved = setup.reserve(args.command())?;
    setup.settings.prior = match args.files.resume {
        true => past.prior.unwrap_or_default(),
        false => {
            match prior::prior(terminal, args, &setup, &interrupted, &mut journal, &mut evidence) {
                Ok(prior) => prior,
                Err(error) => return launch_error(terminal, args, error),
            }
        }
    };
    let mut runner = setup.runner(&interrupted);
    runner.restore_answer(past.answer);
    runner.restore_written(past.written);
    let mut progress = Progress::new(terminal, &setup.space, &setup.settings, setup.is_time());
    let result = search(
        &setup.space,
        &setup.settings,
        &mut runner,
        &mut journal,
        &mut evidence,
        &mut progress,
    );
    progress.finish();
    let stopped = stop_server(terminal, &mut runner);
    let stop = match result {
        Ok(stop) => stop,
        Err(SearchError::Run(error)) if evidence.is_empty() => {
            return launch_error(terminal, args, error.into());
        }
        Err(error) => {
            return Err(anyhow::Error::from(error).context(format!(
                "stopped after {}, kept in {} (--resume continues the search)",
                plural(evidence.len(), "run"),
                journal.path().display()
            )));
        }
    };
    if stop == Stop::TooLittleTime {
        return Err(too_little_time(&setup.settings, &evidence, journal.path()));
    }
    let report = Report::new(&setup.space, &setup.settings, &evidence, stop, setup.metric_name());
    // Includes settings that were taken since.
    let held = held_settings();
    let lab = args.measure.lab.as_deref();
    let command = args.command();
    let origin = Origin { command, machine: &setup.machine, load, held: &held, lab };
    let rows = origin
        .source(&report.metric, report.goal)
        .rows(&evidence, |trial| setup.space.plan(trial.order.candidate).to_string());
    // What hours of measuring have shown is printed even if it cannot be written.
    let (mut written, unwritten) = match outputs.write(terminal, &report, &rows, &origin) {
        Ok(written) => (written, None),
        Err(error) => (Written::default(), Some(error)),
    };
    written.server = args.server.server.as_ref().map(|server| server.text.clone());
    if args.json {
        terminal.json(&Measured::new(terminal, &report))?;
        written.lines().iter().for_each(|line| terminal.say(line));
    } else {
        text::report(terminal, &report, &written, &held)?;
    }
    // The results are kept all the same.
    stopped?;
    if let Some(error) = unwritten {
        return Err(error);
    }
    if stop == Stop::Interrupted {
        return Ok(interruption::status());
    }
    Ok(ExitCode::SUCCESS)
}

/// A program that is missing or cannot be executed has its own status.
fn launch_error(
    terminal: &Terminal,
    args: &Args,
    error: anyhow::Error,
) -> anyhow::Result<ExitCode> {
    let start = match error.downcast_ref::<RunError>() {
        Some(RunError::Start(start)) => Some(start),
        _ => error.downcast_ref::<PlaceError>(),
    };
    match start.map(PlaceError::exit_status) {
        Some(status) if status != 125 => {
            terminal.error(&match shell_remedy(args) {
                Some(remedy) => error.context(remedy),
                None => error,
            });
            Ok(ExitCode::from(status))
        }
        _ => Err(error),
    }
}

/// The remedy for a command that only a shell can run.
fn shell_remedy(args: &Args) -> Option<String> {
    if let Some(server) = &args.server.server {
        return server.shell_remedy();
    }
    let line = shell_line(args.command())?;
    Some(format!(
        "'{line}' is not the name of a program; have a shell run it: numapilot tune -- sh -c \
         '{line}'"
    ))
}

/// The command, if it is a shell command line given as one word.
fn shell_line(command: &[OsString]) -> Option<&str> {
    let [line] = command else { return None };
    line.to_str().filter(|line| line.contains([' ', '|', '&', ';', '<', '>', '$']))
}

/// The error that names the least `--max-time` to compare one plan with the default.
fn too_little_time(settings: &Settings, evidence: &[Trial], journal: &Path) -> anyhow::Error {
    let least = too_few_runs(settings, evidence).unwrap_or_default();
    let each = evidence.iter().map(|t| t.seconds).sum::<f64>() / evidence.len().max(1) as f64;
    let limit = settings.max_seconds.unwrap_or_default();
    let enough = (1.2 * each * least as f64).ceil();
    let journal = journal.display();
    let last = evidence.last().and_then(Trial::failure);
    if let ([_], Some(Failure::Timeout)) = (evidence, last) {
        return anyhow::anyhow!(
            "--max-time {limit}s is over before the first run of the program has ended; comparing \
             one plan with the default takes {least} runs; give that many times the time that a run \
             takes"
        );
    }
    if let Some(failure) = last.filter(|_| evidence.iter().all(|t| t.failure().is_some())) {
        return anyhow::anyhow!(
            "--max-time {limit}s is over and no run has succeeded; the last of {} failed: {failure}",
            plural(evidence.len(), "run")
        );
    }
    if each >= limit {
        return anyhow::anyhow!(
            "--max-time {limit}s is shorter than one run of the program ({}); comparing one plan \
             with the default takes {least} runs; give --max-time {enough:.0}s or more, with \
             --resume to keep what is in {journal}",
            seconds(each)
        );
    }
    anyhow::anyhow!(
        "--max-time is too short: a run takes {}, and comparing one plan with the default takes {} \
         runs at least; give --max-time {enough:.0}s or more, with --resume to keep what is in \
         {journal}",
        seconds(each),
        least,
    )
}
