//! Prints the results for people.

use std::io::Write;

use numapilot_cli_kit::terminal::{BOLD, Terminal, plural, printable, table, trimmed};
use numapilot_trials::fleet::{
    Basis, Change, Comparison, Estimate, Job, Kind, PlanFigures, Report,
};

/// Most names in a list of hosts.
const MOST_NAMES: usize = 5;

/// Prints which plan is best on which kind of machine.
pub fn report(terminal: &Terminal, report: &Report) -> anyhow::Result<()> {
    let mut out = terminal.out();
    writeln!(out, "{} in all files", plural(report.runs, "run"))?;
    for kind in &report.kinds {
        writeln!(out, "\n{BOLD}{}{BOLD:#}", printable(&machine(kind)))?;
        writeln!(out, "{}; {}", printable(&job(&kind.job)), hosts(&kind.hosts))?;
        if kind.plans.is_empty() {
            writeln!(out, "No plan but the default has run.")?;
            continue;
        }
        let mut rows = table(&["PLAN", "RATIO", "INTERVAL", "HOSTS", "ROUNDS"], &[1, 3, 4]);
        for plan in &kind.plans {
            rows.add_row(row(plan));
        }
        writeln!(out, "{}", trimmed(&rows))?;
        for plan in &kind.plans {
            if let Some(reason) = &plan.reason {
                let (name, reason) = (printable(&plan.plan), printable(reason));
                let PlanFigures { failed, runs, .. } = plan;
                writeln!(out, "{name}: {failed} of {runs} runs failed, the last: {reason}")?;
            }
        }
        let verdict = match &kind.best {
            Some(best) => format!("Best: {}{}", printable(best), reach(kind, best)),
            None => "No plan is shown to beat the default.".to_owned(),
        };
        writeln!(out, "{verdict}")?;
    }
    if report.kinds.iter().any(|kind| !kind.plans.is_empty()) {
        writeln!(
            out,
            "\nRATIO: the metric divided by the default's of the same round. The intervals of\n\
             one table hold together at {} %; of several hosts, each counts once.",
            100.0 * report.confidence
        )?;
    }
    Ok(out.flush()?)
}

/// Prints what has changed.
pub fn comparison(terminal: &Terminal, comparison: &Comparison) -> anyhow::Result<()> {
    let mut out = terminal.out();
    for changes in comparison.changes.chunk_by(|one, other| one.job == other.job) {
        writeln!(out, "{BOLD}{}{BOLD:#}", printable(&job(&changes[0].job)))?;
        let mut rows = table(&["PLAN", "RATIO", "INTERVAL", "HOSTS", "SECOND IS"], &[1, 3]);
        for change in changes {
            rows.add_row([
                printable(&change.plan),
                format!("{:.3}", change.estimate.ratio),
                interval(&change.estimate),
                change.estimate.hosts.to_string(),
                verdict(change).to_owned(),
            ]);
        }
        writeln!(out, "{}\n", trimmed(&rows))?;
    }
    if comparison.changes.is_empty() {
        writeln!(out, "No host has the same command, metric and plan in both sets.")?;
    } else {
        writeln!(
            out,
            "RATIO: the second metric divided by the first, of the same host. The intervals of\n\
             one table hold together at {} %; an interval needs two hosts.",
            100.0 * comparison.confidence
        )?;
    }
    for (which, names) in [("first", &comparison.only_first), ("second", &comparison.only_second)] {
        if !names.is_empty() {
            writeln!(out, "Hosts in the {which} set only: {}", printable(&listed(names)))?;
        }
    }
    Ok(out.flush()?)
}

fn machine(kind: &Kind) -> String {
    match (&kind.emulated, &kind.processor, &kind.topology) {
        (Some(machine), ..) => format!("{machine}, emulated"),
        (None, processor, topology) => {
            let processor = processor.as_deref().unwrap_or("unknown processor");
            format!("{processor}, topology {}", topology.as_deref().unwrap_or("unknown"))
        }
    }
}

fn job(job: &Job) -> String {
    let better = if job.maximize { "more is better" } else { "less is better" };
    format!("command {}, {} ({better})", job.command, job.metric)
}

fn hosts(names: &[String]) -> String {
    format!("{}: {}", plural(names.len(), "host"), printable(&listed(names)))
}

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn row(figures: &PlanFigures) -> [String; 5] {
    let plan = printable(&figures.plan);
    match &figures.estimate {
        Some(estimate) => [
            plan,
            format!("{:.3}", estimate.ratio),
            interval(estimate),
            estimate.hosts.to_string(),
            estimate.rounds.to_string(),
        ],
        None => {
            let none = "no round with the default".to_owned();
            [plan, "-".to_owned(), none, "0".to_owned(), "0".to_owned()]
        }
    }
}

fn interval(estimate: &Estimate) -> String {
    match estimate.confidence {
        Some([low, high]) => format!("{low:.3} to {high:.3}"),
        None if estimate.observations() == 1 => "one value".to_owned(),
        None => "not known".to_owned(),
    }
}

/// What the interval of a plan says about other hosts.
fn reach(kind: &Kind, best: &str) -> &'static str {
    let plan = kind.plans.iter().find(|plan| plan.plan == best);
    match plan.and_then(|plan| plan.estimate.as_ref()) {
        Some(estimate) if estimate.basis == Basis::Rounds => {
            " (shown for this host, not for others of its kind)"
        }
        _ => "",
    }
}

fn verdict(change: &Change) -> &'static str {
    match (change.is_better, change.is_worse) {
        (true, _) => "better",
        (_, true) => "worse",
        _ if change.estimate.hosts == 1 => "not known: one host",
        _ if change.estimate.confidence.is_none() => "not known",
        _ => "not shown to differ",
    }
}
