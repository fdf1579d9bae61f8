//! Tests of `numapilot tune`, with programs whose figures do not depend on time: they print a
//! number that follows from the plan's environment.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod failures;
mod few_runs;
mod interruptions;
mod numbers;
mod options;
mod prior;
mod processes;
mod refusals;
mod resident;
mod server;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// Prints the answer and a figure; crashes if told to.
const PROGRAM: &str = "echo answer=${ANSWER:-1}; echo figure=${FIGURE:-100}; exit ${STATUS:-0}";

/// A folder with profiles that set one variable each.
fn folder(profiles: &[(&str, &str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, variable, value) in profiles {
        let text = format!("[env]\n{variable} = \"{value}\"\n");
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// `tune` in the folder, comparing the default with the profiles there alone.
fn tune(folder: &Path, profiles: &[&str], more: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder).args(["tune", "--state", "state"]);
    for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
        command.args(["--factor", factor]);
    }
    command.args(["--factor", "numa-balancing=inherit"]);
    for profile in profiles {
        command.args(["--plan", profile]);
    }
    command.args(more).args(["--metric", "figure=([0-9]+)", "--", "sh", "-c", PROGRAM]);
    command
}

fn json(mut command: Command) -> Value {
    let output = command.assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

fn error(mut command: Command, status: i32) -> String {
    let output = command.assert().failure().code(status).get_output().stderr.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn every_run_gets_the_redirected_standard_input() {
    let folder = folder(&[]);
    let read = ["-c", "read figure; echo figure=$figure"];
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder.path()).args(["tune", "--factor", "allocator=inherit"]);
    for factor in ["threads=none", "memory=inherit", "thp=inherit", "numa-balancing=inherit"] {
        command.args(["--factor", factor]);
    }
    command.args(["--json", "--metric", "figure=([0-9]+)", "--", "sh"]).args(read);
    let output = command.write_stdin("42\n").assert().success().get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["default"]["median"], 42.0);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("every run gets the 3 B of this standard input"), "{stderr}");
}

#[test]
fn the_best_plan_is_named_and_kept_as_a_profile() {
    let folder = folder(&[("fast", "FIGURE", "80"), ("slow", "FIGURE", "130")]);
    let report = json(tune(folder.path(), &["fast", "slow"], &["--json", "--svg", "x.svg"]));
    assert_eq!(report["best"]["plan"], "FIGURE=80");
    assert_eq!(report["default"]["median"], 100.0);
    assert_eq!(report["noise"], 0.0);
    assert!((report["best"]["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    let statuses: Vec<&str> =
        report["plans"].as_array().unwrap().iter().map(|p| p["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["best", "default", "dropped"]);
    assert!(fs::read_to_string(folder.path().join("x.svg")).unwrap().contains("FIGURE=80"));

    // The profile describes the machine of the measurement.
    let profile = fs::read_to_string(folder.path().join("numapilot.toml")).unwrap();
    let comments =
        ["# Kernel: Linux ", "# Command: sh -c ", "# Result: 20.0 % less", "# Machine: "];
    for part in comments {
        assert!(profile.contains(part), "{part} is not in\n{profile}");
    }

    let mut run = Command::cargo_bin("numapilot").unwrap();
    run.current_dir(folder.path());
    run.args(["run", "--profile", "numapilot.toml", "--", "sh", "-c", PROGRAM]);
    run.assert().success().stdout("answer=1\nfigure=80\n").stderr("");
}

#[test]
fn a_profile_that_was_measured_elsewhere_is_reported() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    json(tune(folder.path(), &["fast"], &["--json"]));
    let file = folder.path().join("numapilot.toml");
    let profile = fs::read_to_string(&file).unwrap();
    let table: toml::Table = toml::from_str(&profile).unwrap();
    let measured = table["measured"].as_table().unwrap();
    for field in ["processor", "kernel", "numapilot", "command", "date", "metric", "interval"] {
        assert!(measured.contains_key(field), "{field} is not in\n{profile}");
    }
    assert!((measured["ratio"].as_float().unwrap() - 0.8).abs() < 1e-9);
    let here = measured["topology"].as_str().unwrap();
    fs::write(&file, profile.replace(here, "0123456789abcdef")).unwrap();
    let run = |option: &str| {
        let mut run = Command::cargo_bin("numapilot").unwrap();
        run.current_dir(folder.path());
        run.args(["run", option, "--profile=numapilot.toml", "--", "sh", "-c", PROGRAM]);
        run.assert()
    };
    let output =
        run("--thp=inherit").success().stdout("answer=1\nfigure=80\n").get_output().clone();
    let warning = String::from_utf8(output.stderr).unwrap();
    assert_eq!(warning.lines().count(), 1, "{warning}");
    assert!(warning.contains("warning: profile numapilot.toml: it was measured"), "{warning}");
    assert!(warning.contains(here) && warning.contains("0123456789abcdef"), "{warning}");
    let output = run("--strict").failure().code(125).stdout("").get_output().clone();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("numapilot tune"), "{error}");
}

#[test]
fn people_get_tables() {
    let folder = folder(&[("fast", "FIGURE", "80"), ("crash", "STATUS", "3")]);
    let mut command = tune(folder.path(), &["fast", "crash"], &[]);
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    for part in [
        "below 1 is better",
        "FIGURE=80  0.800",
        "2 of 2 failed: exit status 3",
        "20.0 % less, 1.25 times better",
        "Profile: numapilot.toml\nUse it: ",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn the_plans_are_written_as_tables() {
    let folder = folder(&[("fast", "FIGURE", "80"), ("crash", "STATUS", "3")]);
    let files = ["--csv", "x.csv", "--markdown", "x.md"];
    let mut command = tune(folder.path(), &["fast", "crash"], &files);
    command.assert().success();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let csv = read("x.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "plan,ratio,low,high,basis,status,runs,failed,reason");
    let best: Vec<&str> = lines[1].split(',').collect();
    assert!((best[1].parse::<f64>().unwrap() - 0.8).abs() < 1e-9, "{csv}");
    assert_eq!([best[0], best[4], best[5]], ["FIGURE=80", "rounds", "best"]);
    assert!(lines[2].starts_with("default,1,1,1,,default,"), "{csv}");
    assert_eq!(lines[3], "STATUS=3,,,,,failed,2,2,exit status 3");
    assert_eq!(lines.len(), 4);
    let markdown = read("x.md");
    for part in [
        "| FIGURE=80 | 0.800 | ",
        " | 2 | failed; 2 of 2 failed: exit status 3 |",
        "**FIGURE=80**: 20.0 % less, 1.25 times better",
    ] {
        assert!(markdown.contains(part), "{part} is not in\n{markdown}");
    }
    let same = ["--csv", "y", "--markdown", "./y"];
    let text = error(tune(folder.path(), &["fast"], &[&same[..], &["--force"]].concat()), 125);
    assert!(text.contains("--csv and --markdown name the same file"), "{text}");
}

#[test]
fn when_nothing_beats_the_default_it_says_so() {
    let folder = folder(&[("slow", "FIGURE", "130")]);
    let report = json(tune(folder.path(), &["slow"], &["--json"]));
    assert_eq!(report["best"], Value::Null);
    assert!(!folder.path().join("numapilot.toml").exists());
    let mut command = tune(folder.path(), &["slow"], &[]);
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("Nothing is shown to beat the default"), "{text}");
    let last = "No profile written: no plan is shown to beat the default.\n";
    assert!(text.ends_with(last), "{text}");
}

/// `tune` of one plan, which changes nothing.
fn tune_default(folder: &Path, more: &[&str], script: &str) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder).args(["tune", "--state", "state"]);
    if !more.contains(&"--timeout") {
        command.args(["--timeout", "60s"]);
    }
    for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
        command.args(["--factor", factor]);
    }
    command.args(["--factor", "numa-balancing=inherit"]).args(more);
    command.args(["--", "sh", "-c", script]);
    command
}
