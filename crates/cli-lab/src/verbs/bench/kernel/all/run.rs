//! Runs the kernels one after the other, on this machine or on an emulated one.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::settle::Measured;
use numapilot_cli_kit::status_line::StatusLine;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_workloads::kernels::{self, Options, Outcome, Place};
use serde_json::Value;

use super::args::Args;
use super::series::{End, median};
use super::{lab, svg, text, under};

/// `bench kernel all`.
pub fn run(args: &Args, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.svg {
        file::check(path, Existing::Replace)?;
    }
    let (outcomes, end) = match &args.lab {
        Some(machine) => lab::outcomes(machine, args)?,
        None => here(args, terminal)?,
    };
    if let Some(path) = &args.svg {
        let rows = text::rows(&outcomes)?;
        file::put(path, &svg::draw(&rows), Existing::Replace)?;
    }
    if args.common.json {
        let measured = outcomes.iter().map(|outcome| Measured::new(terminal, outcome));
        terminal.json(&measured.collect::<Vec<_>>())?;
    } else if !args.under.is_empty() {
        under::print(terminal, &outcomes)?;
    } else {
        text::print(terminal, &text::rows(&outcomes)?)?;
    }
    match end {
        End::Whole => Ok(ExitCode::SUCCESS),
        End::Interrupted => Ok(interruption::status()),
        End::Failed(why) => Err(why),
    }
}

/// Runs the kernels on this machine.
fn here(args: &Args, terminal: &Terminal) -> anyhow::Result<(Vec<Value>, End)> {
    let interrupted = interruption::flag()?;
    if !args.under.is_empty() {
        return Ok(under::outcomes(&args.chosen(), args, &interrupted));
    }
    let options = args.common.options(Place::FirstTouch)?;
    let mut outcomes = Vec::new();
    let line = StatusLine::new(terminal);
    for kernel in args.chosen() {
        let places: Vec<Place> = kernel.places().iter().copied().chain([Place::Best]).collect();
        let mut runs: Vec<Vec<Outcome>> = places.iter().map(|_| Vec::new()).collect();
        for round in 1..=args.runs {
            for (place, runs) in places.iter().zip(&mut runs) {
                if interrupted.load(Relaxed) {
                    line.finish();
                    return Ok((outcomes, End::Interrupted));
                }
                line.show(format!("{kernel} · {place} · run {round} of {}", args.runs));
                let options = Options { place: *place, ..options.clone() };
                match kernels::run(kernel, &options) {
                    Ok(outcome) => runs.push(outcome),
                    Err(why) => {
                        line.finish();
                        let what = format!("{kernel} with --place {place}");
                        let why = anyhow::Error::new(why).context(what);
                        return Ok((outcomes, End::Failed(why)));
                    }
                }
            }
        }
        for runs in runs {
            let middle = median(runs, |run| run.seconds);
            outcomes.extend(middle.map(serde_json::to_value).transpose()?);
        }
    }
    line.finish();
    Ok((outcomes, End::Whole))
}
