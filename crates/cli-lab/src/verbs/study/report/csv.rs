//! All trials as CSV (RFC 4180): a line for each number.

use numapilot_cli_kit::csv::line as csv_line;
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
                    text += &csv_line(cells);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_has_its_header() {
        assert_eq!(table(&Past::default()), HEADER);
    }
}
