//! Prints all results in one table: measured and predicted.

use std::io::Write;

use anyhow::Context;
use numapilot_cli_kit::terminal::{self, BOLD, Terminal};
use numapilot_workloads::kernels::Place;
use serde::Deserialize;
use serde_json::Value;

/// A result: the fields that the table and the picture show.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    pub workload: String,
    parameters: Parameters,
    mitigation: String,
    pub seconds: f64,
    pub predicted_seconds: Option<f64>,
    predicted_bound: Option<String>,
    threads: usize,
    nodes: usize,
    time: String,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    unsupported: std::collections::BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Parameters {
    place: String,
    bytes: u64,
}

impl Row {
    /// Parses a result.
    pub fn of(outcome: &Value) -> anyhow::Result<Self> {
        Row::deserialize(outcome).context("a result lacks a field; is it from another version?")
    }

    /// The placement; for `best` with the placement that it stands for.
    pub fn place(&self) -> String {
        match self.parameters.place.as_str() {
            "best" => format!("best: {}", self.mitigation),
            place => place.to_owned(),
        }
    }

    /// Whether this is the pathology.
    pub fn is_pathology(&self) -> bool {
        self.parameters.place == Place::FirstTouch.name()
    }

    /// Whether this ran as `best`.
    fn ran_as_best(&self) -> bool {
        self.parameters.place == Place::Best.name()
    }

    /// Whether this ran as `best`, and the placement it stands for also ran under its own name.
    pub fn repeats_one_of(&self, rows: &[Self]) -> bool {
        let by_name =
            |row: &Self| row.workload == self.workload && row.parameters.place == self.mitigation;
        self.ran_as_best() && rows.iter().any(by_name)
    }

    /// Whether this has the best placement for its kernel, as far as `best` ran too.
    pub fn is_best(&self, rows: &[Self]) -> bool {
        let names_it = |row: &Self| {
            row.workload == self.workload
                && row.ran_as_best()
                && row.mitigation == self.parameters.place
        };
        self.ran_as_best() || rows.iter().any(names_it)
    }

    /// The measured time as text.
    pub fn time(&self) -> String {
        terminal::seconds(self.seconds)
    }
}

/// Parses results.
pub fn rows(outcomes: &[Value]) -> anyhow::Result<Vec<Row>> {
    outcomes.iter().map(Row::of).collect()
}

/// The row of the same kernel's pathology, with which its mitigations are compared.
pub fn pathology<'a>(rows: &'a [Row], of: &Row) -> Option<&'a Row> {
    rows.iter().find(|row| row.is_pathology() && row.workload == of.workload)
}

/// A line that describes all rows.
pub fn subtitle(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    format!(
        "{} on {}, {}, {} time",
        terminal::plural(first.threads, "thread"),
        terminal::plural(first.nodes, "node"),
        terminal::bytes(first.parameters.bytes),
        if first.time == "simulated" { "simulated" } else { "real" },
    )
}

/// Prints the table.
pub fn print(terminal: &Terminal, rows: &[Row]) -> anyhow::Result<()> {
    let mut out = terminal.out();
    writeln!(out, "{BOLD}NUMA pathology kernels: {}{BOLD:#}\n", subtitle(rows))?;
    let header =
        ["kernel", "placement", "measured", "vs pathology", "predicted", "m/p", "bound by"];
    let mut table = terminal::table(&header, &[2, 3, 4, 5]);
    let mut last = "";
    for row in rows {
        let unmitigated = pathology(rows, row).map_or(f64::NAN, |row| row.seconds);
        let predicted = row.predicted_seconds.filter(|p| *p > 0.0);
        table.add_row([
            if row.workload == last { String::new() } else { row.workload.clone() },
            row.place(),
            row.time(),
            format!("{:.2}", row.seconds / unmitigated),
            predicted.map_or("-".to_owned(), terminal::seconds),
            predicted.map_or("-".to_owned(), |p| format!("{:.2}", row.seconds / p)),
            row.predicted_bound.clone().unwrap_or_default(),
        ]);
        last = &row.workload;
    }
    writeln!(out, "{}", terminal::trimmed(&table))?;
    for text in remarks(rows) {
        writeln!(out, "\n{text}")?;
    }
    Ok(())
}

/// Remarks below the table, each once.
fn remarks(rows: &[Row]) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    let mut say = |text: String| {
        if !remarks.contains(&text) {
            remarks.push(text);
        }
    };
    for row in rows {
        for (what, why) in &row.unsupported {
            say(format!("{what}: <not supported> ({why})"));
        }
        // Notes that concern a single run are left out.
        row.notes.iter().filter(|note| note.starts_with("one node")).for_each(|n| say(n.clone()));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(place: &str, seconds: f64) -> Row {
        Row::of(&json!({
            "workload": "k1-init1-readall", "parameters": {"place": place, "bytes": 1 << 20},
            "mitigation": "replicate", "seconds": seconds, "predicted_seconds": null,
            "predicted_bound": null, "threads": 2, "nodes": 1, "time": "wall",
            "notes": ["one node: so"], "unsupported": {"predicted_seconds": "no machine"},
        }))
        .unwrap()
    }

    #[test]
    fn best_says_what_it_is() {
        assert_eq!(row("best", 1.0).place(), "best: replicate");
        assert_eq!(row("local", 1.0).place(), "local");
        let rows = [row("local", 1.0), row("best", 1.0)];
        assert!(!rows[1].repeats_one_of(&rows), "nothing else ran as replicate");
        assert!(rows[1].is_best(&rows) && !rows[0].is_best(&rows));
        let rows = [row("replicate", 1.0), row("best", 1.0)];
        assert!(rows[1].repeats_one_of(&rows) && !rows[0].repeats_one_of(&rows));
        assert!(rows[0].is_best(&rows) && !rows[0].is_best(&rows[..1]));
    }

    #[test]
    fn remarks_are_made_once() {
        let rows = [row("first-touch", 1.0), row("best", 0.5)];
        assert_eq!(
            remarks(&rows),
            ["predicted_seconds: <not supported> (no machine)", "one node: so"]
        );
        assert_eq!(pathology(&rows, &rows[1]).map(|row| row.seconds), Some(1.0));
        assert_eq!(subtitle(&rows), "2 threads on 1 node, 1.00 MiB, real time");
    }

    #[test]
    fn a_result_of_something_else_is_refused() {
        assert!(Row::of(&json!({"workload": "w1"})).is_err());
    }
}
