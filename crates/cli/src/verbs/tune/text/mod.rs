//! Prints the result for people.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use numapilot_cli_kit::terminal::{
    BOLD, DIM, GOOD, Terminal, WARN, plural, printable, seconds, table, trimmed,
};
use numapilot_place::settings_journal::{Holder, Setting};
use numapilot_tune::decide::Stop;
use numapilot_tune::evidence::Goal;
use numapilot_tune::report::{Basis, PlanFigures, Report, Status, ValuesFigures};
use numapilot_tune::run::Restart;
use numapilot_tune::space::Skipped;

use super::prior_text;
use super::setup::{Setup, is_time};
use super::written::Written;

/// Prints what the search will do, on standard error.
pub fn start(terminal: &Terminal, setup: &Setup, state: &Path, done: usize) {
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
    let count = shape.candidates().count();
    let skipped = shape.cells() + shape.extras - count;
    if skipped > 0 {
        plans = format!("{plans}, less {skipped} that cannot be had here");
    }
    if shape.extras > 0 {
        let comma = if skipped > 0 { "," } else { "" };
        plans = format!("{plans}{comma} and {} of your own", shape.extras);
    }
    let noun = if count == 1 { "plan" } else { "plans" };
    terminal.say(format_args!("{count} {noun}: {plans}"));
    for skipped in &setup.space.skipped {
        terminal.say(format_args!("skipped: {}", describe(skipped)));
    }
    if let Some(bytes) = setup.input.redirected_bytes() {
        let bytes = numapilot_cli_kit::terminal::bytes(bytes);
        terminal.say(format_args!("every run gets the {bytes} of this standard input"));
    }
    if let Some(service) = setup.service() {
        let apart = service.cpus.as_ref().map_or_else(String::new, |cpus| {
            format!("; the server runs on CPUs {}, the load on CPUs {}", cpus.server, cpus.load)
        });
        let what = match service.restart {
            Restart::Plan => {
                "every run starts the server under its plan, waits until --ready succeeds, runs \
                 --load outside of the plan and stops the server"
            }
            Restart::Never => {
                "the server is started once, under no plan; every run changes the plan of the \
                 running server and runs --load outside of it; a memory policy and huge pages apply \
                 to memory that the server touches from then on, and moved pages stay"
            }
        };
        terminal.say(format_args!("{what}{apart}"));
    }
    if !setup.machine_wide.is_empty() {
        let settings: Vec<String> = setup.machine_wide.iter().map(Setting::to_string).collect();
        terminal.say(format_args!(
            "changed for the whole machine during the runs that need it, and put back \
             after each: {}",
            settings.join(", ")
        ));
    }
    let resumed = if done > 0 { format!(", {done} of them made before") } else { String::new() };
    terminal.say(format_args!(
        "at most {}{resumed}; results go to {}",
        plural(setup.settings.max_runs, "run"),
        state.display()
    ));
}

fn describe(skipped: &Skipped) -> String {
    match &skipped.level {
        Some(level) => format!("{} {level}: {}", skipped.factor.name(), skipped.reason),
        None => format!("{}: {}", skipped.factor.name(), skipped.reason),
    }
}

/// Prints the tables and the verdict, on standard output.
pub fn report(
    terminal: &Terminal,
    report: &Report,
    written: &Written,
    held: &[Holder],
) -> anyhow::Result<()> {
    let mut out = terminal.out();
    heading(&mut out, report, held)?;
    plans(&mut out, report)?;
    effects(&mut out, report)?;
    verdict(&mut out, report)?;
    for line in written.lines() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn heading(out: &mut impl Write, report: &Report, held: &[Holder]) -> anyhow::Result<()> {
    let better = match report.goal {
        Goal::Minimize => "below 1 is better",
        Goal::Maximize => "above 1 is better",
    };
    writeln!(out, "{BOLD}{}{BOLD:#}, as a ratio to the default's; {better}", metric(report),)?;
    if report.default.runs == 0 {
        writeln!(out, "the default has not run to its end")?;
        return Ok(());
    }
    let median = match report.default.median {
        Some(median) if is_time(&report.metric) => seconds(median),
        Some(median) => figure(median),
        None => "<not measured>".to_owned(),
    };
    let noise = report.noise.map_or("<not measured>".into(), |n| {
        format!("{:.1} % (of its first {})", 100.0 * n, plural(report.noise_runs, "run"))
    });
    let cut = match report.cut_short {
        0 => String::new(),
        cut => format!(" ({cut} cut short)"),
    };
    writeln!(
        out,
        "default: median {median} of {}, noise {noise}; {}{cut} in {}",
        plural(report.default.runs, "run"),
        plural(report.runs, "run"),
        seconds(report.seconds)
    )?;
    if let Some(values) = &report.values {
        writeln!(out, "{}", mean_of(values))?;
        if values.are_unsteady() {
            writeln!(
                out,
                "{WARN}not steady{WARN:#}: in {} of {} the values still changed in the middle of the \
                 load; let the load run longer",
                values.at_limit,
                plural(values.runs, "run")
            )?;
        }
    }
    for line in prior_text::lines(report) {
        writeln!(out, "{line}")?;
    }
    for holder in held {
        let holder = printable(&holder.to_string());
        writeln!(out, "{WARN}not the machine's own settings{WARN:#}: {holder}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// How the figures follow from the values that the load prints.
fn mean_of(values: &ValuesFigures) -> String {
    let range = |[low, high]: [usize; 2]| match low == high {
        true => low.to_string(),
        false => format!("{low} to {high}"),
    };
    format!(
        "each figure is the mean of {} values of the load, less {} dropped as warm-up",
        range(values.found),
        range(values.dropped)
    )
}

/// The metric at the beginning of a line.
pub fn metric(report: &Report) -> String {
    let mut letters = report.metric.chars();
    match letters.next() {
        Some(first) if is_time(&report.metric) => first.to_uppercase().chain(letters).collect(),
        _ => report.metric.clone(),
    }
}

/// Formats a value of the metric.
pub fn figure(value: f64) -> String {
    if value < 1e-3 {
        return format!("{value:.6e}");
    }
    format!("{value:.6}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn plans(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    if report.plans.is_empty() {
        return Ok(());
    }
    let title = format!("{:.0} % interval", 100.0 * report.confidence);
    let mut rows = table(&["plan", "ratio", &title, "runs", "status"], &[1, 3]);
    let shown = |plan: &&PlanFigures| plan.status != Status::Screened;
    // Without a race, there are only results of the screening.
    let raced = report.plans.iter().filter(shown).count() > 1;
    let rows_shown = || report.plans.iter().filter(|plan| !raced || shown(plan));
    let mut listed: Vec<&str> = Vec::new();
    for plan in rows_shown() {
        // A cause that several plans share appears once.
        let failed = plan.status == Status::Failed;
        let reason = plan.reason.as_deref().filter(|_| failed);
        if reason.is_some_and(|reason| listed.contains(&reason)) {
            continue;
        }
        listed.extend(reason);
        rows.add_row([
            printable(&plan.plan),
            plan.ratio.map_or("-".into(), |ratio| format!("{ratio:.3}")),
            // The default's ratio to itself is exact.
            plan.confidence.filter(|_| plan.status != Status::Default).map_or_else(
                || unknown(plan),
                |[low, high]| format!("{low:.3} to {high:.3}{}", mark(plan)),
            ),
            plan.runs.to_string(),
            status(plan, &report.plans),
        ]);
    }
    writeln!(out, "{}", trimmed(&rows))?;
    let screened = report.plans.iter().filter(|p| p.status == Status::Screened).count();
    if rows_shown().any(is_marked) {
        writeln!(out, "{DIM}{ESTIMATED}{DIM:#}")?;
    }
    if screened > 0 && raced {
        writeln!(out, "{DIM}screened only (in --json): {}{DIM:#}", plural(screened, "plan"))?;
    }
    if let Some(plans) = never_ran(report) {
        writeln!(out, "{DIM}{plans}{DIM:#}")?;
    }
    if !report.left_running.is_empty() {
        let programs: Vec<String> =
            report.left_running.iter().map(|name| printable(name)).collect();
        writeln!(out, "{DIM}left running by runs, and ended: {}{DIM:#}", programs.join(", "))?;
    }
    explain(out, report)?;
    writeln!(out)?;
    Ok(())
}

/// Most names that are shown of plans that never ran; all are in `--json`.
const NAMES: usize = 12;

/// The plans that never ran.
fn never_ran(report: &Report) -> Option<String> {
    let plans = &report.never_ran;
    let why = if report.is_short { ", for want of time" } else { "" };
    let names: Vec<String> = plans.iter().take(NAMES).map(|plan| printable(plan)).collect();
    let names = names.join("; ");
    match plans.len().checked_sub(NAMES) {
        _ if plans.is_empty() => None,
        None | Some(0) => Some(format!("never ran{why}: {names}")),
        Some(more) => Some(format!("never ran{why}: {names}; and {}", plural(more, "more plan"))),
    }
}

/// The explanation of the mark at an interval.
pub const ESTIMATED: &str = "* estimated by the model from all runs; not compared run by run";

/// Whether the interval of a plan is an estimate of the model, which proves nothing.
pub fn is_marked(plan: &PlanFigures) -> bool {
    plan.confidence.is_some() && plan.basis == Some(Basis::Model)
}

/// The mark of an interval that the model estimated.
pub fn mark(plan: &PlanFigures) -> &'static str {
    if is_marked(plan) { " *" } else { "" }
}

/// Prints main effects of levels. With one factor they would repeat the plans.
fn effects(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    let factors = report.effects.iter().map(|effect| effect.factor);
    if factors.collect::<BTreeSet<_>>().len() < 2 {
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

/// How to continue a search that has not shown enough.
const MORE: &str = "--resume with a larger --max-runs or --max-time would tell.";

fn verdict(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    let why = match report.stop {
        Stop::Decided if report.best.is_some() => "no other plan can be shown to be better",
        Stop::Decided => "none of the plans can be shown to be better",
        Stop::Equivalent if report.best.is_some() => {
            "the plans left differ by less than the resolution"
        }
        Stop::Equivalent => "the most promising plan gains no more than the resolution",
        Stop::MaxRuns => "the limit of runs is reached (--max-runs)",
        Stop::MaxTime => "the time is over (--max-time)",
        Stop::NothingToCompare if report.plans.len() > 1 => "all other plans failed",
        Stop::NothingToCompare => {
            "there is no other plan here to compare the default with; the lines \
                                   beginning with \"skipped\" say why"
        }
        Stop::TooLittleTime => "the time is too short (--max-time)",
        Stop::Interrupted => "interrupted; --resume continues the search",
    };
    match &report.best {
        Some(best) => {
            let of = compared(report).map(|of| format!(" of the {of}")).unwrap_or_default();
            let plan = printable(&best.plan);
            writeln!(out, "{GOOD}Best{of}: {plan}{GOOD:#}: {} ({why}).", result(report, best))?;
        }
        None => {
            writeln!(out, "{WARN}Nothing is shown to beat the default{WARN:#} ({why}).")?;
            if let Some(plan) = &report.expected {
                let (name, result) = (printable(&plan.plan), result(report, plan));
                let basis = match plan.basis {
                    Some(Basis::Model) => "an estimate of the model, not shown",
                    _ => "not shown",
                };
                writeln!(out, "Expected to be best ({basis}): {name}: {result}.")?;
                writeln!(out, "{MORE}")?;
            } else if report
                .plans
                .iter()
                .any(|plan| plan.basis.is_some() && plan.confidence.is_none())
            {
                writeln!(
                    out,
                    "The runs are too few, or differ too much, to say which plan is expected to be \
                     best."
                )?;
                writeln!(out, "{MORE}")?;
            } else if report.plans.iter().any(|plan| plan.basis.is_some()) {
                let resolution = 100.0 * report.resolution;
                let of = compared(report).map(|of| format!(", of the {of}")).unwrap_or_default();
                writeln!(
                    out,
                    "No plan is expected to gain more than {resolution} % (--resolution){of}."
                )?;
            }
        }
    }
    Ok(())
}

/// The number of plans that the verdict covers, if the time was too short for all.
pub fn compared(report: &Report) -> Option<String> {
    let ran = report.candidates - report.never_ran.len().min(report.candidates);
    report.is_short.then(|| format!("{ran} of {} that ran", plural(report.candidates, "plan")))
}

/// The gain of a plan with its interval: `41.3 % less, 1.70 times faster (1.40 to 2.07); ratio
/// 0.587, 95 % interval 0.484 to 0.713`.
pub fn result(report: &Report, plan: &PlanFigures) -> String {
    let ratio = plan.ratio.unwrap_or(1.0);
    let word = if ratio < 1.0 { "less" } else { "more" };
    let (factor, interval) = gain(report.goal, ratio, plan.confidence);
    let faster = if is_time(&report.metric) { "faster" } else { "better" };
    let factors =
        interval.map_or_else(String::new, |[low, high]| format!(" ({low:.2} to {high:.2})"));
    let interval = plan.confidence.map_or_else(
        || "interval not known".to_owned(),
        |[low, high]| format!("{:.0} % interval {low:.3} to {high:.3}", 100.0 * report.confidence),
    );
    format!(
        "{:.1} % {word}, {factor:.2} times {faster}{factors}; ratio {ratio:.3}, {interval}",
        100.0 * (ratio - 1.0).abs()
    )
}

/// How many times better a plan is than the default, with its interval.
fn gain(goal: Goal, ratio: f64, interval: Option<[f64; 2]>) -> (f64, Option<[f64; 2]>) {
    match goal {
        Goal::Minimize => (1.0 / ratio, interval.map(|[low, high]| [1.0 / high, 1.0 / low])),
        Goal::Maximize => (ratio, interval),
    }
}

/// The text for an unknown interval.
fn unknown(plan: &PlanFigures) -> String {
    if plan.status == Status::Default || plan.ratio.is_none() {
        String::new()
    } else {
        "not known".to_owned()
    }
}

/// The status of a plan, and how many of its runs failed.
fn status(plan: &PlanFigures, all: &[PlanFigures]) -> String {
    let name = match plan.at_least {
        Some(least) if plan.ratio.is_none() => format!("cut short: at least {least:.3}"),
        Some(_) => format!("{}; {} of {} cut short", plan.status.name(), plan.cut_short, plan.runs),
        None => plan.status.name().to_owned(),
    };
    let Some(reason) = &plan.reason else { return name };
    let failed = format!("{} of {} failed", plan.failed, plan.runs);
    let reason = printable(first_line(reason));
    if plan.status != Status::Failed {
        return format!("{name}; {failed}: {reason}");
    }
    // Many plans are often out for the same reason, such as every allocator of a static program.
    let is_alike = |other: &&PlanFigures| {
        other.status == Status::Failed && other.reason == plan.reason && other.plan != plan.plan
    };
    match all.iter().filter(is_alike).count() {
        0 => format!("{failed}: {reason}"),
        n => format!("{failed}, {} alike: {reason}", plural(n, "more plan")),
    }
}

/// Explains why plans that look better than the best are not named.
fn explain(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    let Some(best) = report.best.as_ref().and_then(|best| best.ratio) else { return Ok(()) };
    let looks_better = |status| {
        let better = |ratio: f64| report.goal.cost(ratio) < report.goal.cost(best);
        let plans = report.plans.iter().filter(move |plan| plan.status == status);
        plans.filter(|plan| plan.ratio.is_some_and(better)).count()
    };
    let (tied, screened) = (looks_better(Status::Tied), looks_better(Status::Screened));
    if tied > 0 {
        writeln!(
            out,
            "{DIM}tied plans cannot be told from the best; of these, the named plan changes \
             least{DIM:#}"
        )?;
    }
    if screened > 0 {
        writeln!(
            out,
            "{DIM}{} screened look better than the best, by few runs of their own; they were not \
             raced{DIM:#}",
            plural(screened, "plan")
        )?;
    }
    Ok(())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
pub mod example;

#[cfg(test)]
mod tests {
    use super::example::screened;
    use super::*;

    #[test]
    fn an_estimate_of_the_model_is_marked_as_one() {
        let mut text = Vec::new();
        plans(&mut text, &screened()).unwrap();
        verdict(&mut text, &screened()).unwrap();
        let text = anstream::adapter::strip_str(&String::from_utf8(text).unwrap()).to_string();
        assert!(text.contains("0.217 to 0.727 *") && text.contains(ESTIMATED), "{text}");
        assert!(text.contains("an estimate of the model, not shown"), "{text}");
        let picture = super::super::svg::draw(&screened());
        assert!(picture.contains("(0.217 to 0.727) * expected"), "{picture}");
        assert!(picture.contains(ESTIMATED), "{picture}");
    }

    #[test]
    fn a_gain_has_an_interval_of_its_own() {
        let report = screened();
        let plan = PlanFigures { confidence: Some([0.4, 0.625]), ..report.plans[0].clone() };
        let plan = PlanFigures { ratio: Some(0.5), ..plan };
        assert_eq!(
            result(&report, &plan),
            "50.0 % less, 2.00 times faster (1.60 to 2.50); ratio 0.500, 95 % interval 0.400 to 0.625"
        );
        assert_eq!(gain(Goal::Maximize, 2.0, Some([1.5, 3.0])), (2.0, Some([1.5, 3.0])));
        let unknown = PlanFigures { confidence: None, ..plan };
        assert_eq!(
            result(&report, &unknown),
            "50.0 % less, 2.00 times faster; ratio 0.500, interval not known"
        );
    }
}
