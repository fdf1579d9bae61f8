//! The result for people.

use std::io::Write;
use std::path::Path;

use numapilot_place::journal::Setting;
use numapilot_tune::decide::Stop;
use numapilot_tune::evidence::Goal;
use numapilot_tune::report::{PlanFigures, Report, Status};
use numapilot_tune::space::LeftOut;

use super::files::Outputs;
use super::setup::Setup;
use crate::terminal::{BOLD, DIM, GOOD, Terminal, WARN, seconds, table, trimmed};

/// What is about to happen, on standard error.
pub fn start(terminal: &Terminal, setup: &Setup, state: &Path, done: usize) {
    let mut err = terminal.err();
    let shape = setup.space.shape();
    let mut plans: Vec<String> = setup
        .space
        .factors
        .iter()
        .map(|f| format!("{} ({})", f.name.name(), f.levels.len()))
        .collect();
    if plans.is_empty() {
        plans.push("the default".to_owned());
    }
    let mut plans = plans.join(" x ");
    if shape.extras > 0 {
        plans = format!("{plans} and {} of your own", shape.extras);
    }
    let count = shape.candidates().count();
    let noun = if count == 1 { "plan" } else { "plans" };
    // A closed stderr must not end a search.
    let _ = writeln!(err, "numapilot: {count} {noun}: {plans}");
    for left_out in &setup.space.left_out {
        let _ = writeln!(err, "numapilot: left out: {}", describe(left_out));
    }
    if let Some(bytes) = setup.input.redirected_bytes() {
        let bytes = crate::terminal::bytes(bytes);
        let _ = writeln!(err, "numapilot: every run gets the {bytes} of this standard input");
    }
    if !setup.machine_wide.is_empty() {
        let settings: Vec<String> = setup.machine_wide.iter().map(Setting::to_string).collect();
        let _ = writeln!(
            err,
            "numapilot: changed for the whole machine during the runs that need it, and put back \
             after each: {}",
            settings.join(", ")
        );
    }
    let resumed = if done > 0 { format!(", {done} of them made before") } else { String::new() };
    let _ = writeln!(
        err,
        "numapilot: at most {} runs{resumed}; results go to {}",
        setup.settings.max_runs,
        state.display()
    );
}

fn describe(left_out: &LeftOut) -> String {
    match &left_out.level {
        Some(level) => format!("{} {level}: {}", left_out.factor.name(), left_out.reason),
        None => format!("{}: {}", left_out.factor.name(), left_out.reason),
    }
}

/// The tables and the verdict, on standard output.
pub fn report(terminal: &Terminal, report: &Report, outputs: &Outputs) -> anyhow::Result<()> {
    let mut out = terminal.out();
    heading(&mut out, report)?;
    plans(&mut out, report)?;
    effects(&mut out, report)?;
    verdict(&mut out, report)?;
    if report.best.is_some() {
        writeln!(out, "Use it: numapilot run --profile {} -- COMMAND", outputs.profile.display())?;
    }
    Ok(())
}

fn heading(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    let better = match report.goal {
        Goal::Minimize => "below 1 is better",
        Goal::Maximize => "above 1 is better",
    };
    writeln!(
        out,
        "{BOLD}{}{BOLD:#}, as a ratio to the default's; {better}",
        if report.metric == "wall time" { "Wall time".to_owned() } else { report.metric.clone() },
    )?;
    let median = match report.default.median {
        Some(median) if report.metric == "wall time" => seconds(median),
        Some(median) => format!("{median:.6}").trim_end_matches('0').trim_end_matches('.').into(),
        None => "<not measured>".to_owned(),
    };
    let noise = report.noise.map_or("<not measured>".into(), |n| format!("{:.1} %", 100.0 * n));
    writeln!(
        out,
        "default: median {median} of {} runs, noise {noise}; {} runs in {}\n",
        report.default.runs,
        report.runs,
        seconds(report.seconds)
    )?;
    Ok(())
}

fn plans(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    if report.plans.is_empty() {
        return Ok(());
    }
    let title = format!("{:.0} % interval", 100.0 * report.confidence);
    let mut rows = table(&["plan", "ratio", &title, "runs", "status"], &[1, 3]);
    let shown = |plan: &&PlanFigures| plan.status != Status::Screened;
    // Without a race the screening is all there is.
    let raced = report.plans.iter().filter(shown).count() > 1;
    for plan in report.plans.iter().filter(|plan| !raced || shown(plan)) {
        let status = match &plan.reason {
            Some(reason) => format!("{}: {}", plan.status.name(), first_line(reason)),
            None => plan.status.name().to_owned(),
        };
        rows.add_row([
            plan.plan.clone(),
            plan.ratio.map_or("-".into(), |ratio| format!("{ratio:.3}")),
            // The default's ratio to itself has no doubt.
            plan.confidence
                .filter(|_| plan.status != Status::Default)
                .map_or(String::new(), |[low, high]| format!("{low:.3} to {high:.3}")),
            plan.runs.to_string(),
            status,
        ]);
    }
    writeln!(out, "{}", trimmed(&rows))?;
    let screened = report.plans.iter().filter(|p| p.status == Status::Screened).count();
    let unseen = report.candidates - report.plans.len().min(report.candidates);
    if screened + unseen > 0 && raced {
        writeln!(
            out,
            "{DIM}{screened} more plans were screened only (in --json), {unseen} never ran{DIM:#}"
        )?;
    }
    writeln!(out)?;
    Ok(())
}

fn effects(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    if report.effects.is_empty() {
        return Ok(());
    }
    writeln!(out, "{BOLD}Main effects{BOLD:#}, averaged over the other factors")?;
    let mut rows = table(&["factor", "level", "ratio", "95 % interval"], &[2]);
    for effect in &report.effects {
        let [low, high] = effect.confidence;
        rows.add_row([
            effect.factor.to_owned(),
            effect.level.clone(),
            format!("{:.3}", effect.ratio),
            format!("{low:.3} to {high:.3}"),
        ]);
    }
    writeln!(out, "{}\n", trimmed(&rows))?;
    Ok(())
}

fn verdict(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    let why = match report.stop {
        Stop::Decided => "decided",
        Stop::Equivalent if report.best.is_some() => {
            "the plans left differ by less than the resolution"
        }
        Stop::Equivalent => "the most promising plan gains no more than the resolution",
        Stop::MaxRuns => "all runs are used up (--max-runs)",
        Stop::MaxTime => "the time is over (--max-time)",
        Stop::NothingToCompare => "there is nothing to compare the default with",
        Stop::Interrupted => "interrupted; --resume goes on",
    };
    match &report.best {
        Some(best) => {
            writeln!(out, "{GOOD}Best: {}{GOOD:#}: {} ({why}).", best.plan, gain(best))?;
        }
        None => {
            writeln!(out, "{WARN}Nothing is shown to beat the default{WARN:#} ({why}).")?;
            let gains = |plan: &&PlanFigures| {
                plan.ratio.is_some_and(|ratio| report.goal.cost(ratio) < -report.resolution)
            };
            if let Some(plan) = report.expected.as_ref().filter(gains) {
                let interval = plan.confidence.map_or(String::new(), |[low, high]| {
                    format!(", but anything from {low:.3} to {high:.3} is possible")
                });
                writeln!(out, "Expected to be best: {}: {}{interval}.", plan.plan, gain(plan))?;
                writeln!(out, "--resume with a larger --max-runs or --max-time would tell.")?;
            }
        }
    }
    Ok(())
}

fn gain(plan: &PlanFigures) -> String {
    let ratio = plan.ratio.unwrap_or(1.0);
    let word = if ratio < 1.0 { "less" } else { "more" };
    format!("{:.1} % {word}", 100.0 * (ratio - 1.0).abs())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
