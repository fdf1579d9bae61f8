//! Options of `tune` by their effect on the runs and on the report.

use std::fs;

use serde_json::Value;

use crate::{folder, json, tune_default};

const METRIC: [&str; 2] = ["--metric", "figure=([0-9]+)"];

/// Sets `n` to the number of earlier runs.
const COUNT: &str = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; ";

/// The report of a search over the default and the profiles `(name, variable, value)`.
fn report(profiles: &[(&str, &str, &str)], more: &[&str], script: &str) -> Value {
    let folder = folder(profiles);
    let plans = profiles.iter().flat_map(|(name, ..)| ["--plan", name]);
    let more: Vec<&str> =
        plans.chain(more.iter().copied()).chain(METRIC).chain(["--json"]).collect();
    json(tune_default(folder.path(), &more, script))
}

/// A search in which each run gives another figure, and one plan gains a fifth.
fn noisy(more: &[&str]) -> Value {
    let script = format!("{COUNT} echo figure=$((${{FIGURE:-1000}} + n * 37 % 101))");
    let report = report(&[("fast", "FIGURE", "800")], more, &script);
    assert_eq!(report["best"]["plan"], "FIGURE=800", "{report}");
    report
}

/// Width of the best plan's interval.
fn width(report: &Value) -> f64 {
    let end = |at: usize| report["best"]["confidence"][at].as_f64().unwrap();
    end(1) - end(0)
}

#[test]
fn runs_of_the_warm_up_do_not_count() {
    let script = format!("{COUNT} test $n -lt 3 && echo figure=999 || echo figure=100");
    for (warm_up, median, runs) in [("0", 999.0, 3), ("3", 100.0, 6)] {
        let report = report(&[], &["--warmup", warm_up, "--noise-runs", "3"], &script);
        assert_eq!(report["default"]["median"], median, "{warm_up}: {report}");
        assert_eq!((&report["runs"], &report["default"]["runs"]), (&runs.into(), &3.into()));
    }
}

#[test]
fn the_noise_is_measured_by_as_many_runs_as_are_asked_for() {
    for runs in [3, 7] {
        let report = report(&[], &["--noise-runs", &runs.to_string()], "echo figure=100");
        assert_eq!(report["noise_runs"], runs);
        assert_eq!(report["runs"], runs + 1, "with one of the warm-up: {report}");
    }
}

#[test]
fn more_confidence_takes_a_wider_interval() {
    let with = |confidence| {
        let more = ["--precision", "0.1", "--max-runs", "60", "--confidence", confidence];
        let report = noisy(&more);
        assert_eq!(report["runs"], 60, "{report}");
        report
    };
    let (low, high) = (with("60"), with("99"));
    assert_eq!((&low["confidence"], &high["confidence"]), (&0.6.into(), &0.99.into()));
    assert!(1.5 * width(&low) < width(&high), "{low} {high}");
}

#[test]
fn more_precision_takes_more_runs() {
    let with = |precision| noisy(&["--max-runs", "100", "--precision", precision]);
    let (wide, narrow) = (with("20"), with("4"));
    assert!(wide["runs"].as_u64() < narrow["runs"].as_u64(), "{wide} {narrow}");
    assert!(width(&narrow) < width(&wide), "{wide} {narrow}");
    let ratio = narrow["best"]["ratio"].as_f64().unwrap();
    assert!(width(&narrow) / 2.0 <= 0.04 * 1.01 * ratio, "{narrow}");
}

#[test]
fn a_plan_that_exceeds_a_limit_fails() {
    // tail keeps as many bytes in memory.
    let script = "test -z \"$BIG\" || head -c 90000000 /dev/zero | tail -c 90000000 | wc -c; \
                  echo figure=1";
    let big = [("big", "BIG", "1")];
    let report = report(&big, &["--limit", "rss=60M"], script);
    let plans = report["plans"].as_array().unwrap();
    let big = plans.iter().find(|plan| plan["plan"] == "BIG=1").unwrap();
    assert_eq!(big["status"], "failed", "{report}");
    let reason = big["reason"].as_str().unwrap();
    assert!(reason.starts_with("over the limit: peak RSS"), "{reason}");
}

#[test]
fn every_run_is_prepared() {
    let folder = folder(&[]);
    let more = ["--prepare", "echo x >> prepared; touch fresh", "--json"];
    let script = "rm fresh && echo figure=1";
    let report = json(tune_default(folder.path(), &[&more[..], &METRIC].concat(), script));
    let prepared = fs::read_to_string(folder.path().join("prepared")).unwrap();
    assert_eq!(report["runs"], prepared.lines().count(), "{report}");
    assert_eq!(report["plans"][0]["failed"], 0, "{report}");
}

#[test]
fn every_run_reads_the_file_given_as_standard_input() {
    let folder = folder(&[]);
    fs::write(folder.path().join("input"), "42\n").unwrap();
    let script = "read figure; echo figure=$figure";
    let more = [&["--stdin", "input", "--json"][..], &METRIC].concat();
    let mut command = tune_default(folder.path(), &more, script);
    command.write_stdin("7\n");
    assert_eq!(json(command)["default"]["median"], 42.0);
}
