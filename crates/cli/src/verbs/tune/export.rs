//! The table of plans as CSV and as Markdown, for other programs and for pages.

use numapilot_cli_kit::csv;
use numapilot_cli_kit::terminal::printable;
use numapilot_tune::evidence::Goal;
use numapilot_tune::report::{PlanFigures, Report, Status};

use super::text::{ESTIMATED, is_marked, mark, metric, result};

const COLUMNS: [&str; 9] =
    ["plan", "ratio", "low", "high", "basis", "status", "runs", "failed", "reason"];

/// All plans that ran, one line each. What is not known is empty.
pub fn csv(report: &Report) -> String {
    let mut text = csv::line(COLUMNS);
    for plan in &report.plans {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let [low, high] = [0, 1].map(|end| plan.confidence.map(|bounds| bounds[end]));
        let basis = plan.basis.map_or("", |basis| basis.name());
        let cells = [
            plan.plan.clone(),
            number(plan.ratio),
            number(low),
            number(high),
            basis.to_owned(),
            plan.status.name().to_owned(),
            plan.runs.to_string(),
            plan.failed.to_string(),
            plan.reason.clone().unwrap_or_default(),
        ];
        text += &csv::line(cells.iter().map(String::as_str));
    }
    text
}

/// The same plans as a table of Markdown, with what is claimed about the best.
pub fn markdown(report: &Report) -> String {
    let better = match report.goal {
        Goal::Minimize => "below 1 is better",
        Goal::Maximize => "above 1 is better",
    };
    let percent = 100.0 * report.confidence;
    let mut text = format!(
        "{}, as a ratio to the default's; {better}.\n\n\
         | plan | ratio | {percent:.0} % interval | runs | status |\n|:---|---:|---:|---:|:---|\n",
        escaped(&metric(report))
    );
    for plan in &report.plans {
        let ratio = plan.ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        let cells = [
            escaped(&printable(&plan.plan)),
            ratio,
            interval(plan),
            plan.runs.to_string(),
            status(plan),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    if report.plans.iter().any(is_marked) {
        text += &format!("\n{}.\n", escaped(ESTIMATED));
    }
    match (&report.best, &report.expected) {
        (Some(best), _) => {
            text += &format!("\n**{}**: {}.\n", escaped(&best.plan), result(report, best));
        }
        (None, Some(plan)) => {
            let (name, result) = (escaped(&plan.plan), result(report, plan));
            text += &format!(
                "\nNothing is shown to beat the default. Expected to be best, not shown: \
                 **{name}**: {result}.\n"
            );
        }
        (None, None) => text += "\nNothing is shown to beat the default.\n",
    }
    text
}

fn interval(plan: &PlanFigures) -> String {
    match plan.confidence.filter(|_| plan.status != Status::Default) {
        Some([low, high]) => escaped(&format!("{low:.3} to {high:.3}{}", mark(plan))),
        None => String::new(),
    }
}

fn status(plan: &PlanFigures) -> String {
    match &plan.reason {
        None => plan.status.name().to_owned(),
        Some(reason) => {
            let reason = escaped(&printable(reason));
            let name = plan.status.name();
            format!("{name}; {} of {} failed: {reason}", plan.failed, plan.runs)
        }
    }
}

/// Text that Markdown shows as it is, in one cell.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => escaped.push(' '),
            '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::text::example::screened;
    use super::*;

    #[test]
    fn every_plan_is_a_line() {
        assert_eq!(
            csv(&screened()),
            "plan,ratio,low,high,basis,status,runs,failed,reason\n\
             mimalloc,0.486,0.217,0.727,model,expected,3,0,\n"
        );
    }

    #[test]
    fn what_is_not_shown_is_not_claimed() {
        let text = markdown(&screened());
        assert!(
            text.contains("| mimalloc | 0.486 | 0.217 to 0.727 \\* | 3 | expected |"),
            "{text}"
        );
        assert!(
            text.contains("Expected to be best, not shown: **mimalloc**: 51.4 % less"),
            "{text}"
        );
        let best = Report { best: screened().expected, expected: None, ..screened() };
        assert!(markdown(&best).contains("\n**mimalloc**: 51.4 % less, 2.06 times faster"));
    }

    #[test]
    fn text_stays_in_its_cell() {
        assert_eq!(escaped("a|b\n*c* <d>"), "a\\|b \\*c\\* \\<d>");
    }
}
