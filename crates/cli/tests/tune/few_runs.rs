//! Tests of `numapilot tune` with few runs, and of runs that are cut short.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

use super::{folder, json};

/// Prints its progress.
const PROGRAM: &str =
    "for row in 1 2 3 4 5 6 7 8 9 10; do sleep ${STEP:-0.02}; echo rows $row; done";

/// A folder with ten profiles, of which all but the first make the program ten times slower.
fn profiles() -> TempDir {
    let names: Vec<String> = (0..10).map(|index| format!("p{index}")).collect();
    let steps: Vec<String> = (0..10)
        .map(|index| if index == 0 { "0.01".to_owned() } else { format!("0.2{index}") })
        .collect();
    let profiles: Vec<(&str, &str, &str)> = names
        .iter()
        .zip(&steps)
        .map(|(name, step)| (name.as_str(), "STEP", step.as_str()))
        .collect();
    folder(&profiles)
}

fn tune(folder: &TempDir, more: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder.path()).args(["tune", "--state", "state"]);
    for factor in ["allocator", "memory", "thp", "numa-balancing"] {
        command.arg("--factor").arg(format!("{factor}=inherit"));
    }
    command.args(["--factor", "threads=none"]);
    for index in 0..10 {
        command.arg("--plan").arg(format!("p{index}"));
    }
    command.args(more).args(["--", "sh", "-c", PROGRAM]);
    command
}

#[test]
fn a_run_that_falls_behind_is_cut_short_and_has_no_figure() {
    let folder = profiles();
    let more = ["--max-runs", "20", "--progress", "rows ([0-9]+)", "--json"];
    let output = tune(&folder, &more).assert().success().get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["runs"].as_u64().unwrap() <= 20);
    let cut = report["cut_short"].as_u64().unwrap();
    assert!(cut >= 5, "{report}");
    let plans = report["plans"].as_array().unwrap();
    let of_plans: u64 = plans.iter().map(|plan| plan["cut_short"].as_u64().unwrap()).sum();
    assert_eq!(of_plans, cut);
    for plan in plans {
        let is_slow = plan["plan"].as_str().unwrap().starts_with("STEP=0.2");
        // The bound takes the place of a figure, and a run that was cut short has not failed.
        assert_eq!(plan["ratio"].is_null(), is_slow, "{plan}");
        assert_eq!(plan["failed"], 0);
        if is_slow {
            assert!(plan["at_least"].as_f64().unwrap() > 0.5, "{plan}");
        }
        if plan["status"] == "default" {
            assert_eq!(plan["cut_short"], 0);
        }
    }
    for named in [&report["best"], &report["expected"]] {
        assert!(named.is_null() || named["plan"] == "STEP=0.01", "{named}");
    }
    let journal = fs::read_to_string(folder.path().join("state/trials.jsonl")).unwrap();
    assert_eq!(journal.matches("\"cut-short\"").count() as u64, cut);

    // The search continues with its cut runs.
    let text = tune(&folder, &["--max-runs", "20", "--progress", "rows ([0-9]+)", "--resume"]);
    let output = { text }.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    // Which screened plans the table shows depends on the default's time.
    assert!(text.contains(" cut short)"), "{text}");
}

#[test]
fn progress_is_refused_where_it_cannot_be_read() {
    let folder = profiles();
    for (more, part) in [
        (&["--progress", "rows"][..], "group"),
        (&["--progress", "rows ([0-9]+)", "--metric", "x ([0-9]+)"], "--metric"),
        (&["--progress", "lines ([0-9]+)", "--prior", "none"], "--progress 'lines ([0-9]+)'"),
    ] {
        let output = tune(&folder, more).assert().failure().get_output().stderr.clone();
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_few_plans_need_no_more_runs_than_many() {
    let folder = folder(&[
        ("a", "FIGURE", "101"),
        ("b", "FIGURE", "60"),
        ("c", "FIGURE", "99"),
        ("d", "FIGURE", "102"),
        ("e", "FIGURE", "98"),
    ]);
    let profiles = ["a", "b", "c", "d", "e"];
    let search = super::tune(folder.path(), &profiles, &["--max-runs", "13", "--json"]);
    let report = json(search);
    assert!(report["runs"].as_u64().unwrap() <= 13, "{report}");
    let named = if report["best"].is_null() { &report["expected"] } else { &report["best"] };
    assert_eq!(named["plan"], "FIGURE=60", "{report}");
}
