//! What a search expects before its first run.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

use super::failures::compiled;
use super::{error, json};

/// The third allocator makes the program faster.
const PROGRAM: &str =
    "case \"$LD_PRELOAD\" in *lib3.so*) echo figure=60;; *) echo figure=100;; esac";

/// A folder with nine allocators, so that with the program's own one there are too many plans to race
/// them all. `None` where they cannot be compiled; the test is skipped then.
fn folder() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let malloc = "void *__libc_malloc(unsigned long);\n\
                  void *malloc(unsigned long size) { return __libc_malloc(size); }";
    for number in 1..=9 {
        compiled(folder.path(), &format!("lib{number}.so"), malloc, &["-shared", "-fPIC"])?;
    }
    Some(folder)
}

/// A search whose results are kept in `kept`. `comment` makes the program another one.
fn tune(folder: &Path, kept: &str, comment: &str, more: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder).env("XDG_STATE_HOME", folder.join(kept));
    let libraries: Vec<String> = (1..=9)
        .map(|number| folder.join(format!("lib{number}.so")).display().to_string())
        .collect();
    command.args(["tune", "--json", "--force", "--factor"]);
    command.arg(format!("allocator={}", libraries.join(",")));
    for factor in ["threads=none", "memory=inherit", "thp=inherit", "numa-balancing=inherit"] {
        command.args(["--factor", factor]);
    }
    command.args(more).args(["--metric", "figure=([0-9]+)", "--", "sh", "-c"]);
    command.arg(format!("{PROGRAM} # {comment}"));
    command
}

fn is_found(report: &Value) -> bool {
    report["best"]["plan"].as_str().is_some_and(|plan| plan.ends_with("lib3.so"))
}

#[test]
fn earlier_searches_of_this_machine_choose_the_first_runs() {
    let Some(folder) = folder() else { return };
    let search = |comment: &str, more: &[&str]| json(tune(folder.path(), "kept", comment, more));
    let first = search("a", &["--prior", "history"]);
    assert!(is_found(&first) && first["prior"].is_null(), "{first}");
    let second = search("b", &["--prior", "history"]);
    let searches = second["prior"]["searches"].as_array().unwrap();
    assert_eq!(searches.len(), 1, "{second}");
    assert!(searches[0]["search"].as_str().unwrap().contains("# a'"), "{second}");
    assert!(searches[0]["weight"].as_f64().unwrap() > 0.7, "{second}");
    assert!(is_found(&second) && second["prior"]["advice"].is_null());
    assert!(second["runs"].as_u64() < first["runs"].as_u64(), "{first} {second}");

    // A search that continues expects the same as before.
    let resumed = search("b", &["--resume"]);
    assert_eq!(resumed["prior"], second["prior"]);
    // Nothing is expected if that is asked for.
    let none = search("b", &["--prior", "none"]);
    assert!(is_found(&none) && none["prior"].is_null(), "{none}");
    assert_eq!(none["runs"], first["runs"]);
}

#[test]
fn the_runs_of_a_fleet_are_a_history() {
    let Some(folder) = folder() else { return };
    let runs = ["--prior", "history", "--parquet", "runs.parquet"];
    json(tune(folder.path(), "there", "a", &runs));
    let history = ["--prior", "history", "--history", "runs.parquet"];
    let report = json(tune(folder.path(), "here", "a", &history));
    let searches = report["prior"]["searches"].as_array().unwrap();
    assert_eq!(searches.len(), 1, "{report}");
    assert!(searches[0]["weight"].as_f64().unwrap() > 0.7, "{report}");
    assert!(is_found(&report));
    let missing = ["--history", "missing.parquet"];
    assert!(error(tune(folder.path(), "here", "a", &missing), 125).contains("missing.parquet"));
}

#[test]
fn advice_is_expected_and_never_rules_a_plan_out() {
    let Some(folder) = folder() else { return };
    // The advice is wrong: it expects that the allocator that helps makes no difference.
    let advice = serde_json::json!({"factors": [{"factor": "allocator", "verdict": "cannot-matter",
        "levels": [{"level": "lib3.so", "ratio": 1.0, "deviation": 0.001}]}]});
    fs::write(folder.path().join("advice.json"), advice.to_string()).unwrap();
    let more = ["--prior", "advise", "--advice", "advice.json"];
    let report = json(tune(folder.path(), "kept", "a", &more));
    assert!(is_found(&report), "{report}");
    let right = report["prior"]["advice"].as_f64().unwrap();
    assert!((0.0..0.9).contains(&right), "{report}");

    // What says nothing about this search is refused, and so is what --prior rules out.
    let refused = |more: &[&str]| error(tune(folder.path(), "kept", "a", more), 125);
    let text = refused(&["--prior", "history", "--advice", "advice.json"]);
    assert!(text.contains("--prior history rules --advice out"), "{text}");
    let text = refused(&["--prior", "none", "--history", "kept"]);
    assert!(text.contains("--prior none rules --history out"), "{text}");
    let other = advice.to_string().replace("lib3.so", "lib0.so");
    fs::write(folder.path().join("other.json"), other).unwrap();
    let text = refused(&["--advice", "other.json"]);
    assert!(text.contains("other.json says nothing about the levels"), "{text}");
    fs::create_dir(folder.path().join("damaged")).unwrap();
    fs::write(folder.path().join("damaged/trials.jsonl"), "junk\n").unwrap();
    let text = refused(&["--history", "damaged"]);
    assert!(text.contains("--history damaged: its search cannot be read"), "{text}");

    fs::write(folder.path().join("advice.json"), "{}").unwrap();
    let text = error(tune(folder.path(), "kept", "a", &more), 125);
    assert!(text.contains("--advice advice.json") && text.contains("advise --json"), "{text}");
}

#[test]
fn a_run_is_observed_in_place_of_the_warm_up() {
    let Some(folder) = folder() else { return };
    let output = tune(folder.path(), "kept", "a", &[]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("has observed 1 run"), "{text}");
    let none = tune(folder.path(), "kept", "a", &["--prior", "none"]).output().unwrap();
    let text = String::from_utf8(none.stderr).unwrap();
    assert!(!text.contains("observed"), "{text}");
    // The run counts as the warm-up, so that it is none more.
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept = fs::read_dir(folder.path().join("kept/numapilot")).unwrap();
    let journal = kept.flatten().next().unwrap().path().join("trials.earlier.jsonl");
    let journal = fs::read_to_string(journal).unwrap();
    let warm_ups = journal.lines().filter(|line| line.contains("\"warm-up\"")).count();
    assert_eq!(warm_ups, 1, "{journal}");
    assert!(report["runs"].as_u64().unwrap() > 1);
}
