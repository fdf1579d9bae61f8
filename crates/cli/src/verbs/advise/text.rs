//! The advice for people: a table of the factors, the reasons of each, and the plan to try first.

use std::fmt::Write;

use numapilot_advise::{Advice, Bound, Factor, Finding, Run, Verdict};
use numapilot_cli_kit::columns::percent;
use numapilot_cli_kit::terminal::{printable, seconds, table, wrap};
use numapilot_observe::Metric;
use numapilot_place::{Plan, quoted};
use numapilot_tune::space::Level;

/// Width at which sentences are wrapped: the least that a terminal has.
const WIDTH: usize = 80;

/// The text of the advice. `command` is the program's command line, which is given again under the
/// plan.
pub fn text(title: &str, command: &[String], run: &Run, advice: &Advice) -> String {
    let mut text = format!("\n Advice for {}", printable(title));
    let wall = run.figure(Metric::Seconds).map_or_else(|_| "one run".to_owned(), seconds);
    let cpu =
        run.cpu_seconds().map_or(String::new(), |cpu| format!(", {} of CPU time", seconds(cpu)));
    let _ = write!(text, "\n (one run: {wall}{cpu}):\n\n");
    text += &factors(advice);
    for finding in &advice.findings {
        text.push('\n');
        text += &reasons(finding);
    }
    text.push('\n');
    text += &first(command, advice);
    text.push('\n');
    text
}

/// One line for each factor.
fn factors(advice: &Advice) -> String {
    let mut rows = table(&["factor", "verdict", "saves at most", "try first"], &[2]);
    for finding in &advice.findings {
        let bound = match (finding.verdict, finding.bound) {
            (Verdict::NotVaried, _) => "-".to_owned(),
            (_, Some(bound)) => percent(bound.cpu_share),
            // A threshold of the rule's source decided; it bounds nothing.
            (Verdict::CannotMatter, None) => "no bound".to_owned(),
            (_, None) => "not known".to_owned(),
        };
        let first = match &finding.first {
            Some(level) if advice.machine_wide.contains(level) => {
                format!("{} (machine-wide)", level.name())
            }
            Some(level) => level.name(),
            None => "-".to_owned(),
        };
        rows.add_row([
            finding.factor.name().to_owned(),
            finding.verdict.words().to_owned(),
            bound,
            first,
        ]);
    }
    let mut text = String::new();
    for line in rows.to_string().lines() {
        let _ = writeln!(text, "   {}", line.trim_end());
    }
    text + "   (shares of CPU time)\n"
}

/// Why, by how much at most, and what is left open.
fn reasons(finding: &Finding) -> String {
    let mut text = format!("{}: {}", finding.factor.name(), printable(&finding.because));
    text += ".";
    match finding.bound {
        Some(Bound::NOTHING) => text += " Certain.",
        Some(bound) if bound.wall_share > bound.cpu_share => {
            let _ = write!(
                text,
                " At most {} of CPU time, which is up to {} of wall time if it is all on the \
                 critical path.",
                percent(bound.cpu_share),
                percent(bound.wall_share)
            );
        }
        Some(bound) => {
            let _ = write!(text, " At most {} of the time.", percent(bound.cpu_share));
        }
        None => {}
    }
    if !finding.uncertainty.is_empty() {
        let _ = write!(text, " Left open: {}.", finding.uncertainty);
    }
    let _ = write!(text, " [{}]", finding.source);
    wrap(&text, WIDTH, " ", "   ")
}

/// The plan to try first, and how to measure it.
fn first(command: &[String], advice: &Advice) -> String {
    let words = |words: Vec<String>| words.join(" ");
    let program: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let mut text = String::new();
    if advice.first == Plan::default() {
        let nothing = "Try first: the default. No figure of this run asks for another plan.";
        text += &wrap(nothing, WIDTH, " ", "   ");
    } else {
        let options = advice.first.options();
        let line = ["numapilot", "run"].map(str::to_owned).into_iter().chain(options);
        let line = line.chain(["--".to_owned()]).chain(program.clone()).collect();
        let _ = writeln!(text, " Try first:  {}", words(line));
    }
    if !advice.machine_wide.is_empty() {
        let mut plan = Plan::default();
        advice.machine_wide.iter().for_each(|level| level.apply(&mut plan));
        let note = format!(
            "Not in it, because it changes a setting of the whole machine: {plan}. \
             --allow-machine-wide lets it."
        );
        text += &wrap(&note, WIDTH, " ", "   ");
    }
    let certain = advice
        .findings
        .iter()
        .filter(|finding| finding.bound == Some(Bound::NOTHING) && !finding.levels.is_empty());
    let left_out = certain.filter_map(|finding| match finding.factor {
        Factor::Plan(name) => {
            Some(format!("--factor {}={}", name.name(), Level::neutral(name).name()))
        }
        Factor::Cores => None,
    });
    let tune = ["numapilot tune".to_owned()].into_iter().chain(left_out);
    let tune = tune.chain(["--".to_owned()]).chain(program).collect();
    let _ = writeln!(text, " To be sure: {}", words(tune));
    text
}
