//! The summary of a run as JSON: the fields that the three workloads share.

use std::io::Write;

use numapilot_cli_kit::terminal::Terminal;
use serde_json::{Map, Value, json};

use super::context::RunContext;
use super::open::Bench;

/// The fields that all summaries have. Fields without a figure are listed with the reason.
pub fn fields(bench: &Bench<'_>, workload: &str, context: &RunContext) -> Map<String, Value> {
    let mut unsupported = Map::new();
    let watched = &context.watched;
    if watched.points.is_empty() {
        let reason =
            watched.unsupported.as_deref().unwrap_or("the engine ended before the first sample");
        unsupported.insert("peak_rss_bytes".to_owned(), reason.into());
    }
    if let Err(reason) = &context.mallocs {
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
    put("malloc", context.mallocs.as_ref().map_or(Value::Null, |mallocs| json!(mallocs)));
    put("engine_cpu_seconds", watched.engine_cpu_seconds.into());
    put("driver_cpu_seconds", watched.driver_cpu_seconds.into());
    put("driver_share", watched.driver_share().into());
    put("unsupported", unsupported.into());
    put("note", bench.dataset.benchmark().disclaimer().into());
    all
}

/// Prints one JSON value on a line of its own and flushes it.
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
