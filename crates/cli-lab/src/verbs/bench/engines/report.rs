//! Reports the results of the three workloads: as text or JSON, and as a picture.

use std::io::Write;
use std::process::ExitCode;

use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::settle::Measured;
use numapilot_cli_kit::terminal::{BAD, BOLD, Terminal, WARN, printable_lines};
use numapilot_engines::End;
use serde_json::{Map, Value};

use super::args::Common;
use super::context::RunContext;
use super::open::Bench;
use super::svg::Caption;
use super::{json, text};

/// A warning is printed when the driver uses more than this share of the engine's CPU time.
const DRIVER_SHARE: f64 = 0.02;

/// The results of one workload.
pub trait Findings {
    /// Name of the workload.
    const WORKLOAD: &'static str;

    /// Describes what was measured, on which engine, under which plan.
    fn subtitle(&self, bench: &Bench<'_>) -> String;

    /// Adds the workload's own fields to the summary, which already has `parameters`.
    fn summarize(&self, all: &mut Map<String, Value>, context: &RunContext);

    /// Prints the workload's table, and its lines for programs.
    fn print(&self, out: &mut dyn Write, bench: &Bench<'_>) -> anyhow::Result<()>;

    /// Draws the results.
    fn picture(&self, caption: &Caption, context: &RunContext) -> String;

    /// Describes what is missing after an interruption.
    fn unfinished(&self) -> &'static str;

    /// The distinct failures.
    fn failures(&self) -> Vec<String>;
}

/// Reports the results as text or JSON, draws the picture, and stops the engine. All sessions must
/// be closed before.
pub fn end<F: Findings>(
    common: &Common,
    bench: Bench<'_>,
    context: &RunContext,
    end: End,
    findings: &F,
) -> anyhow::Result<ExitCode> {
    let terminal = bench.terminal;
    bench.progress.finish();
    warn(terminal, context);
    let is_interrupted = matches!(end, End::Interrupted);
    let failures = findings.failures();
    if common.json {
        let mut all = json::fields(&bench, F::WORKLOAD, context);
        all.insert("checksum".to_owned(), bench.checksum().into());
        all.insert("is_interrupted".to_owned(), is_interrupted.into());
        findings.summarize(&mut all, context);
        json::line(terminal, &Measured::new(terminal, all))?;
    } else {
        let mut out = terminal.out();
        writeln!(out, "{BOLD}{}: {}{BOLD:#}\n", F::WORKLOAD, findings.subtitle(&bench))?;
        findings.print(&mut out, &bench)?;
        if is_interrupted {
            writeln!(out, "{WARN}Interrupted: {}.{WARN:#}", findings.unfinished())?;
        }
        for failure in &failures {
            writeln!(out, "{BAD}{}{BAD:#}", printable_lines(failure))?;
        }
        text::closing_lines(&mut out, &bench, context)?;
    }
    if let Some(path) = &common.svg {
        let disclaimer = bench.dataset.benchmark().disclaimer();
        let caption = Caption { subtitle: findings.subtitle(&bench), disclaimer };
        file::put(path, &findings.picture(&caption, context), Existing::Replace)?;
    }
    bench.close(end, &failures)
}

/// Warns when the driver disturbed the measurement.
fn warn(terminal: &Terminal, context: &RunContext) {
    if let Some(share) = context.watched.driver_share()
        && share > DRIVER_SHARE
    {
        terminal.warn(format!(
            "the bench itself used {:.1} % of the engine's CPU time; take a larger --scale-factor \
             for queries that last longer",
            share * 100.0
        ));
    }
}
