//! The verdicts of a lab study as a table.

use std::fmt::Write;

use numapilot_cli_kit::terminal::table;
use numapilot_study::lab::{Errors, Judged, Study};

/// Prints figures, then curves point by point, then the distribution of errors, then remarks.
pub fn tables(study: &Study, judged: &Judged) -> String {
    let mut text = format!("{}\n({})\n\n", study.title, study.source);
    let mut rows = table(&["claim", "figure", "expected", "here", "verdict"], &[2, 3]);
    let number = |value: Option<f64>| value.map_or("-".to_owned(), short);
    let mut remarks = Vec::new();
    for figure in &judged.figures {
        rows.add_row([
            figure.claim.clone(),
            figure.name.clone(),
            number(figure.expected),
            number(figure.value),
            figure.verdict.to_string(),
        ]);
        remarks.extend(figure.remark.iter().map(|r| format!("{}: {r}", figure.name)));
    }
    let _ = writeln!(text, "{}", rows.trim_fmt());
    for curve in &judged.curves {
        let _ = writeln!(text, "\n{} {}: {}\n", curve.claim, curve.name, curve.verdict);
        let mut rows = table(&[&curve.axes[0], &curve.axes[1]], &[0, 1]);
        for [x, y] in &curve.points {
            rows.add_row([short(*x), short(*y)]);
        }
        let _ = writeln!(text, "{}", rows.trim_fmt());
        remarks.extend(curve.remark.iter().map(|r| format!("{}: {r}", curve.name)));
    }
    if !judged.errors.is_empty() {
        let _ = writeln!(text, "\n{}", errors(&judged.errors));
    }
    if !remarks.is_empty() {
        let _ = writeln!(text, "\n{}", remarks.join("\n"));
    }
    text
}

/// The distribution of the errors.
fn errors(errors: &[Errors]) -> String {
    let header = ["errors", "figures", "quartile", "median", "quartile", "worst", "within 25 %"];
    let mut rows = table(&header, &[1, 2, 3, 4, 5, 6]);
    for errors in errors {
        rows.add_row([
            errors.claim.clone().unwrap_or_else(|| "all".to_owned()),
            errors.figures.to_string(),
            percent(errors.lower_quartile),
            percent(errors.median),
            percent(errors.upper_quartile),
            percent(errors.worst),
            errors.within_25.to_string(),
        ]);
    }
    rows.trim_fmt()
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Rounds to four digits.
pub fn short(value: f64) -> String {
    let digits = value.abs().max(1e-9).log10().floor() as i32;
    let decimals = usize::try_from(3 - digits).unwrap_or(0).min(6);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_shown() {
        let shown: Vec<String> = [0.0, 0.125, 1.2, 96.6, 123_456.0].map(short).into();
        assert_eq!(shown, ["0.000000", "0.1250", "1.200", "96.60", "123456"]);
    }
}
