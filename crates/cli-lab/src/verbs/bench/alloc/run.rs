//! Runs tests under allocators in rounds, and prints the results.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::settle::Measured;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_study::benchmark_run::BenchmarkRun;
use numapilot_study::results::Results;
use serde::Serialize;

use super::args::{Compare, List, Rounds, Suite};
use super::field::Field;
use super::progress::Progress;
use super::{compare, list, svg, text};

/// The JSON form; `threads` is a number for `suite`, and a list for `compare`.
#[derive(Serialize)]
struct Document<'a, T> {
    workload: &'static str,
    threads: T,
    rounds: u32,
    seed: u64,
    #[serde(flatten)]
    results: &'a Results,
}

/// Lists what would be compared.
pub fn list(args: &List, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let field = Field::of_suite(&args.tests, &args.allocators)?;
    list::print(terminal, &field, args.allocators.json)?;
    Ok(ExitCode::SUCCESS)
}

/// `bench alloc suite`.
pub fn suite(args: &Suite, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let mut field = Field::of_suite(&args.tests, &args.allocators)?;
    let results = measure(&mut field, &args.rounds, svg::draw, terminal)?;
    let (threads, &Rounds { rounds, seed, .. }) = (field.threads[0], &args.rounds);
    if args.allocators.json {
        let results = &results;
        let document = Document { workload: "alloc-suite", threads, rounds, seed, results };
        terminal.json(&Measured::new(terminal, document))?;
    } else {
        text::results(terminal, &results, threads, rounds)?;
    }
    Ok(status(&results))
}

/// `bench alloc compare`.
pub fn compare(args: &Compare, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let mut field = Field::of_threads(args)?;
    let results = measure(&mut field, &args.rounds, compare::draw, terminal)?;
    let (threads, &Rounds { rounds, seed, .. }) = (&field.threads, &args.rounds);
    if args.allocators.json {
        let results = &results;
        let document = Document { workload: "alloc-compare", threads, rounds, seed, results };
        terminal.json(&Measured::new(terminal, document))?;
    } else {
        compare::print(terminal, &results, rounds)?;
    }
    Ok(status(&results))
}

fn status(results: &Results) -> ExitCode {
    if results.is_interrupted { interruption::status() } else { ExitCode::SUCCESS }
}

/// Runs the rounds and draws the picture.
fn measure(
    field: &mut Field,
    args: &Rounds,
    draw: fn(&Results, u32) -> String,
    terminal: &Terminal,
) -> anyhow::Result<Results> {
    if field.tests.is_empty() {
        let reasons: Vec<&str> = field.missing.iter().map(|m| m.reason.as_str()).collect();
        bail!("no test can be run: {}", reasons.join("; "));
    }
    if let Some(path) = &args.svg {
        file::check(path, Existing::Replace)?;
    }
    let machine = numapilot_topology::read(Path::new("/"))?;
    let interrupted = interruption::flag()?;
    let benchmark = BenchmarkRun {
        machine: &machine,
        tests: &field.tests,
        candidates: &field.candidates,
        rounds: args.rounds,
        timeout: args.timeout,
        directory: field.directory.path(),
        seed: args.seed,
        interrupted: &interrupted,
    };
    let mut progress = Progress::new(terminal, field, args.rounds);
    let made = benchmark.run(&mut progress);
    progress.finish();
    let made = made?;
    let results = Results::new(
        &field.tests,
        &field.candidates,
        field.reference,
        &made.runs,
        std::mem::take(&mut field.missing),
        made.is_interrupted,
    );
    if let Some(path) = &args.svg {
        file::put(path, &draw(&results, args.rounds), Existing::Replace)?;
    }
    Ok(results)
}
