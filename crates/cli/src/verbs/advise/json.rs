//! The advice as JSON.

use std::collections::BTreeMap;

use numapilot_advise::{Advice, Bound, CodeShares, Expectation, Factor, Finding, Run, Verdict};
use numapilot_place::settings_journal::Holder;
use numapilot_place::visible_json;
use serde::Serialize;

/// The object that is printed.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    exit_status: Option<u8>,
    seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    /// What samples of the code have shown.
    code: Option<Code<'a>>,
    malloc: Option<&'a str>,
    factors: Vec<Of<'a>>,
    /// The plan to try first, in one line.
    plan: String,
    /// The same as options of `numapilot run`.
    options: Vec<String>,
    /// Levels that would belong to it, but change a setting of the whole machine.
    machine_wide: Vec<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    held_settings: &'a [Holder],
    unsupported: BTreeMap<&'static str, &'a str>,
}

#[derive(Serialize)]
struct Code<'a> {
    samples: u64,
    allocator_samples: u64,
    unknown_samples: u64,
    threads: usize,
    allocating_threads: usize,
    wandering_threads: usize,
    node_samples: &'a BTreeMap<numapilot_topology::NodeId, u64>,
}

/// One factor.
#[derive(Serialize)]
struct Of<'a> {
    factor: Factor,
    verdict: Verdict,
    bound: Option<Bound>,
    because: &'a str,
    uncertainty: &'a str,
    figures: BTreeMap<&'static str, f64>,
    source: &'static str,
    first: Option<String>,
    levels: Vec<Level>,
}

#[derive(Serialize)]
struct Level {
    level: String,
    ratio: f64,
    deviation: f64,
}

/// Who was observed, and how it ended.
pub struct Subject<'a> {
    pub command: Option<&'a [String]>,
    pub pid: Option<i32>,
    pub exit_status: Option<u8>,
    pub held: &'a [Holder],
}

/// The text of the object.
///
/// # Errors
/// Fails if a figure cannot be written as JSON.
pub fn json(subject: &Subject, run: &Run, advice: &Advice) -> anyhow::Result<String> {
    let unsupported = run.figures.iter().filter_map(|(metric, figure)| {
        figure.as_ref().err().map(|reason| (metric.name(), reason.as_str()))
    });
    let code = run.code.as_ref().err().map(|reason| ("code", reason.as_str()));
    let seconds = run.figure(numapilot_observe::Metric::Seconds).ok();
    let json = Json {
        command: subject.command,
        pid: subject.pid,
        exit_status: subject.exit_status,
        seconds,
        cpu_seconds: run.cpu_seconds().ok(),
        code: run.code.as_ref().ok().map(code_of),
        malloc: run.malloc.as_deref(),
        factors: advice.findings.iter().map(of).collect(),
        plan: advice.first.to_string(),
        options: advice.first.options(),
        machine_wide: advice.machine_wide.iter().map(numapilot_tune::space::Level::name).collect(),
        held_settings: subject.held,
        unsupported: unsupported.chain(code).collect(),
    };
    Ok(visible_json(&serde_json::to_string_pretty(&json)?) + "\n")
}

fn code_of(code: &CodeShares) -> Code<'_> {
    Code {
        samples: code.samples,
        allocator_samples: code.allocator,
        unknown_samples: code.unknown,
        threads: code.threads,
        allocating_threads: code.allocating_threads,
        wandering_threads: code.wandering_threads,
        node_samples: &code.nodes,
    }
}

fn of(finding: &Finding) -> Of<'_> {
    let level = |expected: &Expectation| Level {
        level: expected.level.name(),
        ratio: expected.ratio,
        deviation: expected.deviation,
    };
    Of {
        factor: finding.factor,
        verdict: finding.verdict,
        bound: finding.bound,
        because: &finding.because,
        uncertainty: &finding.uncertainty,
        figures: finding.figures.iter().map(|figure| (figure.name, figure.value)).collect(),
        source: finding.source,
        first: finding.first.as_ref().map(numapilot_tune::space::Level::name),
        levels: finding.levels.iter().map(level).collect(),
    }
}
