//! The figures of a lab study as tables of the manual.

use std::fmt::Write;

use numapilot_study::lab::{Errors, FigureResult, Judged, Study};

use super::text::{percent, short};

/// The figures with their errors and sources, then the distribution of the errors, then the
/// sources.
pub fn tables(study: &Study, judged: &Judged) -> String {
    let mut text = String::from("| claim | figure | published | simulated | error | source |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for figure in &judged.figures {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), short);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            figure.claim,
            figure.name,
            number(figure.expected),
            number(figure.value),
            figure.error().map_or("-".to_owned(), signed),
            figure.source.as_deref().unwrap_or_default(),
        );
    }
    if !judged.errors.is_empty() {
        text.push('\n');
        errors(&mut text, &judged.errors);
    }
    let remarks = judged.figures.iter().filter(|figure| figure.value.is_none());
    for FigureResult { name, remark, .. } in remarks {
        let _ = writeln!(text, "\n{name}: {}", remark.as_deref().unwrap_or_default());
    }
    if !study.sources.is_empty() {
        text.push_str("\n| source | published |\n|---|---|\n");
        for (name, source) in &study.sources {
            let _ = writeln!(text, "| {name} | {source} |");
        }
    }
    text
}

/// The distribution of the errors.
fn errors(text: &mut String, errors: &[Errors]) {
    text.push_str("| claim | figures | lower quartile | median | upper quartile | worst ");
    text.push_str("| within 10 % | 25 % | 50 % |\n|---|---|---|---|---|---|---|---|---|\n");
    for errors in errors {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            errors.claim.as_deref().unwrap_or("all"),
            errors.figures,
            percent(errors.lower_quartile),
            percent(errors.median),
            percent(errors.upper_quartile),
            percent(errors.worst),
            errors.within_10,
            errors.within_25,
            errors.within_50,
        );
    }
}

fn signed(share: f64) -> String {
    format!("{:+.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use numapilot_study::lab::Evidence;
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_errors_and_sources_are_tables() {
        let study = Study::parse(
            "
            title = 't'
            source = 's'
            errors = true
            sources = { a = 'Who, 2020' }
            [[runs]]
            name = 'r'
            machine = 'm'
            command = []
            [[figures]]
            claim = 'latency'
            name = 'f'
            value = { run = 'r', field = 'v' }
            expected = 100.0
            tolerance = 0.25
            source = 'a'
            ",
        );
        let study = study.unwrap();
        let mut evidence = Evidence::default();
        evidence
            .counted
            .insert("r".to_owned(), json!({ "regions": [{ "name": "all", "v": 80.0 }] }));
        let printed = tables(&study, &study.judge(&evidence));
        assert!(printed.contains("| latency | f | 100.0 | 80.00 | -20 % | a |"), "{printed}");
        let row = "| latency | 1 | 20 % | 20 % | 20 % | 20 % | 0 | 1 | 1 |\n| all | 1 |";
        assert!(printed.contains(row), "{printed}");
        assert!(printed.ends_with("| a | Who, 2020 |\n"), "{printed}");
        let missing = tables(&study, &study.judge(&Evidence::default()));
        assert!(missing.contains("f: run r was not made"), "{missing}");
    }
}
