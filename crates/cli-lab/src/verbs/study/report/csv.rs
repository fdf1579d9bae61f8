//! All trials as CSV (RFC 4180): a line for each number.

use std::fmt::Write;

use numapilot_study::experiment::{Kind, Outcome, Past, cells};

const HEADER: &str = "experiment,scale,machine,levels,round,metric,unit,value,failure\n";

/// Writes the table.
pub fn table(past: &Past) -> String {
    let mut text = HEADER.to_owned();
    for (scale, experiment) in &past.experiments {
        for cell in cells(experiment, *scale) {
            let levels: Vec<String> = cell.at.iter().map(|(f, l)| format!("{f}={l}")).collect();
            for trial in past.trials.iter().filter(|trial| trial.command == cell.command) {
                let mut line = |metric: &str, unit: &str, value: &str, failure: &str| {
                    let scale = scale.to_string();
                    let (levels, round) = (levels.join(";"), trial.round.to_string());
                    let cells = [
                        &experiment.id,
                        scale.as_str(),
                        &experiment.machine,
                        &levels,
                        &round,
                        metric,
                        unit,
                        value,
                        failure,
                    ];
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "{}", cells.map(quoted).join(","));
                };
                match &trial.outcome {
                    Outcome::Failed(why) | Outcome::NotHere(why) => line("", "", "", why),
                    Outcome::Values(values) => {
                        let numbers = experiment.metrics.iter();
                        for (name, metric) in numbers.filter(|(_, m)| m.kind == Kind::Number) {
                            match values.get(&metric.key()) {
                                Some(Ok(value)) => line(name, &metric.unit, &value.to_string(), ""),
                                Some(Err(why)) => line(name, &metric.unit, "", why),
                                None => {}
                            }
                        }
                    }
                }
            }
        }
    }
    text
}

fn quoted(cell: &str) -> String {
    match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("a b"), "a b");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(table(&Past::default()), HEADER);
    }
}
