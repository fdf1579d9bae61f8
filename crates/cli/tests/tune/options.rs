//! Options of `tune` by their effect on the runs and on the report.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;

use crate::{error, folder, json, tune_default};

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
fn the_profiles_that_are_given_can_be_compared_alone() {
    let folder = folder(&[("fast", "FIGURE", "80"), ("slow", "FIGURE", "130")]);
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder.path()).args(["tune", "--state", "state", "--json", "--only-plans"]);
    command.args(["--plan", "fast", "--plan", "slow"]).args(METRIC);
    command.args(["--", "sh", "-c", "echo figure=${FIGURE:-100}"]);
    let report = json(command);
    assert_eq!((&report["candidates"], &report["best"]["plan"]), (&3.into(), &"FIGURE=80".into()));
    let mut alone = Command::cargo_bin("numapilot").unwrap();
    alone.args(["tune", "--only-plans", "--", "true"]).assert().failure();
}

#[test]
fn values_without_meaning_are_refused_before_the_first_run() {
    let percent = "write a number above 0 and below 100";
    let folder = folder(&[]);
    for (option, why) in [
        ("--confidence=0", percent),
        ("--confidence=100", percent),
        ("--precision=0", percent),
        ("--resolution=-1", percent),
        ("--failure-tolerance=100", percent),
        ("--noise-runs=2", "from 3 to 1000"),
        ("--warmup=-1", "invalid digit"),
        ("--seed=one", "invalid digit"),
        ("--limit=cpu=1", "write rss=8G or time=30s"),
        ("--limit=time=soon", "is not a duration"),
        ("--max-time=0", "is not a duration"),
        ("--metric=(", "--metric"),
        ("--check=(", "--check"),
        ("--decimal=comma", "--metric"),
    ] {
        let text = error(tune_default(folder.path(), &[option], "touch ran"), 125);
        assert!(text.contains(why), "{option}: {text}");
    }
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn a_failed_preparation_ends_the_search() {
    let folder = folder(&[]);
    let text = error(tune_default(folder.path(), &["--prepare", "exit 3"], "touch ran"), 125);
    assert!(text.contains("--prepare") && text.contains('3'), "{text}");
    assert!(!folder.path().join("ran").exists());
}

/// A plan that changes nothing of the figures is told from the default by differences that do not
/// matter.
#[test]
fn a_coarser_resolution_takes_fewer_runs() {
    let with = |resolution| {
        let script = format!("{COUNT} echo figure=$((1000 + n * 37 % 101))");
        let more = ["--max-runs", "60", "--resolution", resolution];
        report(&[("same", "OTHER", "1")], &more, &script)
    };
    let (coarse, fine) = (with("20"), with("0.1"));
    assert_eq!((&coarse["resolution"], &fine["resolution"]), (&0.2.into(), &0.001.into()));
    assert!(coarse["runs"].as_u64() < fine["runs"].as_u64(), "{coarse} {fine}");
}

#[test]
fn the_seed_decides_the_order_of_the_runs() {
    let order = |seed| {
        let folder = folder(&[("a", "FIGURE", "101"), ("b", "FIGURE", "102")]);
        let more = ["--plan", "a", "--plan", "b", "--max-runs", "40", "--seed", seed];
        let script = "echo ${FIGURE:-100} >> order; echo figure=${FIGURE:-100}";
        json(tune_default(folder.path(), &[&more[..], &METRIC, &["--json"]].concat(), script));
        fs::read_to_string(folder.path().join("order")).unwrap()
    };
    let first = order("1");
    assert_eq!(first, order("1"));
    assert_ne!(first, order("2"));
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
fn a_run_that_takes_longer_than_the_limit_fails() {
    let folder = folder(&[]);
    let text = error(tune_default(folder.path(), &["--limit", "time=1ms"], "sleep 0.01"), 125);
    assert!(text.contains("s, limit 0.001 s"), "{text}");
}

#[test]
fn a_run_is_ended_after_the_timeout() {
    let folder = folder(&[]);
    // Without the option there is no limit for the first run.
    let text = error(tune_default(folder.path(), &["--timeout", "100ms"], "sleep 5"), 125);
    assert!(text.contains("timeout"), "{text}");
}

#[test]
fn the_profile_goes_to_the_file_that_is_named() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    let more = ["--plan", "fast", "--output", "mine.toml"];
    let script = "echo figure=${FIGURE:-100}";
    tune_default(folder.path(), &[&more[..], &METRIC].concat(), script).assert().success();
    let profile = fs::read_to_string(folder.path().join("mine.toml")).unwrap();
    assert!(profile.contains("# numapilot profile: FIGURE=80\n"), "{profile}");
    assert!(!folder.path().join("numapilot.toml").exists());
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
