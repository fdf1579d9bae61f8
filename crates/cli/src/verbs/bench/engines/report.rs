//! What every one of the three tells besides its own figures: memory, malloc, the driver's
//! share, and what the results are not.

use std::io::Write;
use std::process::ExitCode;

use numapilot_engines::power::{Failure, Outcome};
use numapilot_engines::{End, Mallocs, Watched};
use serde_json::{Map, Value, json};

use super::open::{Bench, Common};
use super::picture::Caption;
use crate::file::{self, Existing};
use crate::settle::Measured;
use crate::terminal::{self, BAD, BOLD, DIM, Terminal, WARN, printable_lines};

/// The driver must cost less than this share of the engine's CPU time, or is warned about.
const DRIVER_SHARE: f64 = 0.02;

/// What was seen of the engine beside the queries.
pub struct Surroundings {
    pub watched: Watched,
    pub mallocs: Result<Mallocs, String>,
}

/// `glibc in 7 processes`; allocators of its own after it.
fn describe(mallocs: &Mallocs) -> String {
    let used = mallocs.processes.iter().map(|(name, processes)| {
        let plural = if *processes == 1 { "" } else { "es" };
        format!("{name} in {processes} process{plural}")
    });
    let embedded = mallocs.embedded.iter().map(|embedded| {
        let file = embedded.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{} linked into {file}", embedded.symbol)
    });
    used.chain(embedded).collect::<Vec<_>>().join(", ")
}

/// What is said of a failure.
pub fn told(failure: &Failure) -> String {
    match failure {
        Failure::Refused(cause) => format!("failed: {cause}"),
        Failure::Wrong(difference) => format!("gave a wrong answer: {difference}"),
    }
}

/// Which query failed, and how.
pub fn failed(number: u32, failure: &Failure) -> String {
    format!("query {number} {}", told(failure))
}

/// A query's failure, if it has one.
pub fn failure(outcome: &Outcome) -> Option<String> {
    Some(failed(outcome.number, outcome.failure.as_ref()?))
}

/// Each failure once, with how often there was one like it.
pub fn failures(all: &[(u32, Failure)]) -> Vec<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for (number, failure) in all {
        let text = failed(*number, failure);
        match counted.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => counted.push((text, 1)),
        }
    }
    let text = |(text, count)| if count == 1 { text } else { format!("{text} ({count} times)") };
    counted.into_iter().map(text).collect()
}

/// What one of the three found.
pub trait Findings {
    /// Its name.
    const WORKLOAD: &'static str;

    /// What was measured, on which engine, under which plan.
    fn subtitle(&self, bench: &Bench<'_>) -> String;

    /// Its own fields of the summary, where `parameters` already is.
    fn summarize(&self, all: &mut Map<String, Value>, seen: &Surroundings);

    /// Its table and the lines for patterns.
    fn print(&self, out: &mut dyn Write, bench: &Bench<'_>) -> anyhow::Result<()>;

    /// Its picture.
    fn picture(&self, caption: &Caption, seen: &Surroundings) -> String;

    /// What has not been done when the user ended it.
    fn unfinished(&self) -> &'static str;

    /// What failed, each once.
    fn failures(&self) -> Vec<String>;
}

/// Tells what was found, in words or as JSON, and as a picture; stops the engine. The sessions
/// must be gone.
pub fn end<F: Findings>(
    common: &Common,
    bench: Bench<'_>,
    seen: &Surroundings,
    end: End,
    findings: &F,
) -> anyhow::Result<ExitCode> {
    let terminal = bench.terminal;
    bench.progress.finish();
    warn(terminal, seen);
    let is_interrupted = matches!(end, End::Interrupted);
    let failures = findings.failures();
    if common.json {
        let mut all = fields(&bench, F::WORKLOAD, seen);
        all.insert("checksum".to_owned(), bench.checksum().into());
        all.insert("is_interrupted".to_owned(), is_interrupted.into());
        findings.summarize(&mut all, seen);
        line(terminal, &Measured::new(terminal, all))?;
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
        surroundings(&mut out, &bench, seen)?;
    }
    if let Some(path) = &common.svg {
        let disclaimer = bench.dataset.benchmark().disclaimer();
        let caption = Caption { subtitle: findings.subtitle(&bench), disclaimer };
        file::put(path, &findings.picture(&caption, seen), Existing::Replace)?;
    }
    bench.close(end, &failures)
}

/// The lines at the end.
fn surroundings(
    out: &mut impl Write,
    bench: &Bench<'_>,
    seen: &Surroundings,
) -> anyhow::Result<()> {
    let watched = &seen.watched;
    match (watched.peak_held_bytes(), watched.mean_held_bytes(), watched.peak_rss_bytes()) {
        (Some(peak), Some(mean), Some(rss)) => {
            let [peak, mean, rss] = [peak, mean, rss].map(terminal::bytes);
            writeln!(out, "memory held {peak} at most, {mean} on average; peak RSS {rss}")?;
        }
        _ => {
            let reason = watched.unsupported.as_deref().unwrap_or("the engine ended before a look");
            writeln!(out, "memory held <not supported> ({reason})")?;
        }
    }
    match &seen.mallocs {
        Ok(mallocs) => writeln!(out, "malloc {}", describe(mallocs))?,
        Err(reason) => writeln!(out, "malloc <not supported> ({reason})")?,
    }
    match watched.driver_share() {
        Some(share) => {
            let engine = terminal::seconds(watched.engine_cpu_seconds);
            writeln!(out, "driver's CPU time {:.2} % of the engine's {engine}", share * 100.0)?;
        }
        None => writeln!(out, "driver's CPU time <not supported> (the engine used none)")?,
    }
    writeln!(out, "{DIM}{}{DIM:#}", bench.dataset.benchmark().disclaimer())?;
    Ok(())
}

/// A warning when driving disturbed what was measured.
fn warn(terminal: &Terminal, seen: &Surroundings) {
    if let Some(share) = seen.watched.driver_share()
        && share > DRIVER_SHARE
    {
        terminal.warn(format!(
            "the bench itself used {:.1} % of the engine's CPU time; take a larger --scale-factor \
             for queries that last longer",
            share * 100.0
        ));
    }
}

/// The fields that all summaries have, and those that have no figure with the reason.
fn fields(bench: &Bench<'_>, workload: &str, seen: &Surroundings) -> Map<String, Value> {
    let mut unsupported = Map::new();
    let watched = &seen.watched;
    if watched.points.is_empty() {
        let reason = watched.unsupported.as_deref().unwrap_or("the engine ended before a look");
        unsupported.insert("peak_rss_bytes".to_owned(), reason.into());
    }
    if let Err(reason) = &seen.mallocs {
        unsupported.insert("malloc".to_owned(), reason.as_str().into());
    }
    let settings: Map<String, Value> =
        bench.settings.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let numbers: Vec<u32> = bench.queries.iter().map(|query| query.number).collect();
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    put("workload", workload.into());
    put("engine", bench.engine.title().into());
    put(
        "parameters",
        json!({
            "dataset": bench.dataset.name(),
            "scale_factor": bench.dataset.scale().factor(),
            "queries": numbers,
            "plan": bench.plan.to_string(),
            "settings": settings,
        }),
    );
    put("peak_rss_bytes", watched.peak_rss_bytes().into());
    put("peak_held_bytes", watched.peak_held_bytes().into());
    put("mean_held_bytes", watched.mean_held_bytes().into());
    put("malloc", seen.mallocs.as_ref().map_or(Value::Null, |mallocs| json!(mallocs)));
    put("engine_cpu_seconds", watched.engine_cpu_seconds.into());
    put("driver_cpu_seconds", watched.driver_cpu_seconds.into());
    put("driver_share", watched.driver_share().into());
    put("unsupported", unsupported.into());
    put("note", bench.dataset.benchmark().disclaimer().into());
    all
}

/// One JSON value on one line, at once.
///
/// # Errors
/// When standard output cannot be written.
pub fn line(terminal: &Terminal, value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = terminal.out();
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}
