//! Tests of `numapilot fleet` and of the files of `tune --parquet`, also with DuckDB.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use numapilot_test_kit::make_executable;
use serde_json::Value;
use tempfile::TempDir;

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

/// A folder with a plan that sets the figure, and one that fails.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.toml"), "[env]\nFIGURE = \"80\"\n").unwrap();
    fs::write(folder.path().join("bad.toml"), "[env]\nSTATUS = \"3\"\n").unwrap();
    folder
}

fn numapilot(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(NUMAPILOT).current_dir(folder).args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&out(&numapilot(folder, arguments))).unwrap()
}

fn error(folder: &Path, arguments: &[&str]) -> String {
    let output = numapilot(folder, arguments);
    assert_eq!(output.status.code(), Some(125), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A search whose figures do not depend on time, written to this file.
fn tune(folder: &Path, file: &str, more: &[&str]) -> Output {
    let mut words = vec!["tune", "--state=state", "--parquet", file, "--metric=figure=([0-9]+)"];
    for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
        words.extend(["--factor", factor]);
    }
    words.extend(["--factor=numa-balancing=inherit", "--plan=good.toml", "--plan=bad.toml"]);
    words.extend(more);
    words.extend(["--", "sh", "-c", "echo figure=${FIGURE:-100}; exit ${STATUS:-0}"]);
    numapilot(folder, &words)
}

#[test]
fn every_run_of_a_search_is_a_row() {
    let folder = folder();
    let text = out(&tune(folder.path(), "a.parquet", &[]));
    assert!(text.contains("Runs: a.parquet"), "{text}");
    let report = json(folder.path(), &["fleet", "report", "--json", "a.parquet"]);
    assert_eq!(report["kinds"].as_array().unwrap().len(), 1, "{report}");
    let kind = &report["kinds"][0];
    assert_eq!(kind["best"], "FIGURE=80", "{report}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(kind["hosts"], serde_json::json!([host.trim()]));
    let good = &kind["plans"][0];
    assert_eq!((good["plan"].as_str(), good["failed"].as_u64()), (Some("FIGURE=80"), Some(0)));
    let ratio = good["estimate"]["ratio"].as_f64().unwrap();
    assert!((ratio - 0.8).abs() < 1e-9, "{report}");
    assert_eq!(good["estimate"]["basis"], "rounds");
    let bad = &kind["plans"][1];
    assert_eq!(bad["reason"], "exit status 3", "{report}");
    assert!(bad["estimate"].is_null(), "{report}");
    let text = out(&numapilot(folder.path(), &["fleet", "report", "."]));
    assert!(text.contains("Best: FIGURE=80 (shown for this host, not for others"), "{text}");
    assert!(text.contains("runs failed, the last: exit status 3"), "{text}");
    // The file is not replaced unasked, and the search says so before it begins.
    let output = tune(folder.path(), "a.parquet", &["-o", "new.toml"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a.parquet exists"));
}

#[test]
fn two_sets_are_compared_host_by_host() {
    let folder = folder();
    fs::create_dir(folder.path().join("before")).unwrap();
    out(&tune(folder.path(), "before/a.parquet", &[]));
    let same = json(folder.path(), &["fleet", "compare", "--json", "before", "before/a.parquet"]);
    let changes = same["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2, "{same}");
    for change in changes {
        assert_eq!(change["estimate"]["ratio"], 1.0, "{same}");
        assert!(change["estimate"]["confidence"].is_null(), "{same}");
    }
    let text = out(&numapilot(folder.path(), &["fleet", "compare", "before", "before"]));
    assert!(text.contains("not known: one host"), "{text}");
}

#[test]
fn other_files_are_refused() {
    let folder = folder();
    let report = |path: &str| error(folder.path(), &["fleet", "report", path]);
    fs::write(folder.path().join("x.parquet"), "PAR1").unwrap();
    assert!(report("x.parquet").contains("is no Parquet file, or is damaged or compressed"));
    let missing = report("nosuch");
    assert!(missing.contains("cannot read nosuch; check the path"), "{missing}");
    assert_eq!(missing.matches("os error 2").count(), 1, "{missing}");
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(report("empty").contains("has no file whose name ends in .parquet"));
    // Damage within the values, which only decoding shows, is an error and no crash.
    out(&tune(folder.path(), "a.parquet", &[]));
    let bytes = fs::read(folder.path().join("a.parquet")).unwrap();
    for at in (4..bytes.len() - 8).step_by(23) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        fs::write(folder.path().join("d.parquet"), bytes).unwrap();
        let output = numapilot(folder.path(), &["fleet", "report", "d.parquet"]);
        let status = output.status.code();
        assert!([Some(0), Some(125)].contains(&status), "byte {at}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(status == Some(0) || text.contains("d.parquet"), "byte {at}: {text}");
    }
}

#[test]
fn nothing_half_written_is_left() {
    let folder = folder();
    symlink("/dev/full", folder.path().join("full")).unwrap();
    let output = tune(folder.path(), "full", &["--force"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left on device"));
    // What was measured is printed all the same.
    assert!(String::from_utf8_lossy(&output.stdout).contains("FIGURE=80"));
}

#[test]
fn a_plan_is_measured_in_pairs() {
    let folder = folder();
    let trial = |plan: &str, more: &[&str]| {
        let fixed = ["tune", "trial", "--json", "--rounds=3", "--metric=figure=([0-9]+)", "--plan"];
        let program = "echo figure=${FIGURE:-100}; exit ${STATUS:-0}";
        numapilot(
            folder.path(),
            &[&fixed, &[plan][..], more, &["--", "sh", "-c", program]].concat(),
        )
    };
    let output = trial("good.toml", &["--parquet=t.parquet"]);
    let result: Value = serde_json::from_str(&out(&output)).unwrap();
    assert!((result["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{result}");
    assert_eq!((result["pairs"].as_u64(), result["plan"].as_str()), (Some(3), Some("FIGURE=80")));
    assert_eq!(result["default"]["values"], serde_json::json!([100.0, 100.0, 100.0]));
    assert_eq!(result["figures"]["median"], 80.0);
    // Its runs are rows like those of a search.
    let report = json(folder.path(), &["fleet", "report", "--json", "t.parquet"]);
    assert_eq!(report["kinds"][0]["best"], "FIGURE=80", "{report}");
    assert_eq!(report["runs"], 7);
    let more = trial("good.toml", &["--maximize"]);
    let more: Value = serde_json::from_str(&out(&more)).unwrap();
    assert!((more["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{more}");
    // A plan that fails has no figure, and the status says so.
    let output = trial("bad.toml", &[]);
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["ratio"].is_null(), "{result}");
    assert_eq!(result["reason"], "exit status 3");
    let alone = |more: &[&str]| {
        error(folder.path(), &[&["tune", "trial"], more, &["--", "sh", "-c", "exit 4"]].concat())
    };
    let text = alone(&["--plan=good.toml", "--rounds=1"]);
    assert!(text.contains("runs fail without any plan: exit status 4"), "{text}");
    assert!(alone(&["--plan=good.toml", "--lab=machine-a"]).contains("measures on this machine"));
    assert!(alone(&["--plan=nosuch.toml"]).contains("nosuch.toml"));
}

/// Where `scripts/setup test` has put modules of Python.
fn python_modules(name: &str) -> PathBuf {
    Path::new(NUMAPILOT).ancestors().nth(2).unwrap().join(name)
}

#[test]
fn duckdb_reads_and_rewrites_the_file() {
    let folder = folder();
    out(&tune(folder.path(), "a.parquet", &[]));
    let query = "import duckdb, json\n\
                 rows = duckdb.sql(\"select plan, count(*), median(value), min(host), \
                 bool_and(time > timestamptz '2020-01-01'), sum((outcome = 'ok')::int) \
                 from 'a.parquet' where phase <> 'warm-up' group by plan order by plan\").fetchall()\n\
                 duckdb.sql(\"copy (select * from 'a.parquet') to 'b.parquet' \
                 (format parquet, compression uncompressed)\")\n\
                 print(json.dumps(rows, default=float))\n";
    let mut python = Command::new("python3");
    python.args(["-c", query]).env("PYTHONPATH", python_modules("python"));
    let Some(output) = with_module("duckdb", python.current_dir(folder.path())) else { return };
    let rows: Value = serde_json::from_str(&out(&output)).unwrap();
    let good = rows.as_array().unwrap().iter().find(|row| row[0] == "FIGURE=80").unwrap();
    assert_eq!(good[2], 80.0, "{rows}");
    assert_eq!(good[4], true, "{rows}");
    assert_eq!(good[1], good[5], "{rows}");
    let failed = rows.as_array().unwrap().iter().find(|row| row[0] == "STATUS=3").unwrap();
    assert!(failed[2].is_null() && failed[5] == 0, "{rows}");
    // What DuckDB has written is read as well.
    let own = json(folder.path(), &["fleet", "report", "--json", "a.parquet"]);
    let rewritten = json(folder.path(), &["fleet", "report", "--json", "b.parquet"]);
    assert_eq!(own, rewritten);
}

#[test]
fn the_example_of_the_manual_finds_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/fleet.md");
    let manual = fs::read_to_string(manual).unwrap();
    let (_, script) = manual.split_once("```python\n").unwrap();
    fs::write(folder.path().join("search.py"), script.split_once("```").unwrap().0).unwrap();
    // With five threads it is fastest, and faster with -XX:+UseNUMA.
    let java = "#!/bin/sh\nset -- ${JAVA_TOOL_OPTIONS:--XX:ParallelGCThreads=9}\nfor flag; do\n\
                case $flag in *Threads=*) n=${flag#*Threads=};; *+UseNUMA) numa=0;; esac; done\n\
                off=$((n - 5)); echo seconds=$((10 + off * off + ${numa-1}))\n";
    make_executable(&folder.path().join("java"), &mut java.as_bytes());
    let program = Path::new(NUMAPILOT).parent().unwrap();
    let path = format!(
        "{}:{}:{}",
        folder.path().display(),
        program.display(),
        std::env::var("PATH").unwrap()
    );
    let mut python = Command::new("python3");
    python.arg("search.py").env("PYTHONPATH", python_modules("python-optuna")).env("PATH", path);
    let Some(output) = with_module("optuna", python.current_dir(folder.path())) else { return };
    let text = out(&output);
    let best: f64 = text.split_whitespace().last().unwrap().parse().unwrap();
    // The best is 10 seconds of 27; one thread more or less makes 11 of them.
    assert!(text.contains("'numa': '+'") && best < 11.5 / 27.0, "{text}");
}

/// What a Python program printed; `None`, which is reported, without Python or this module.
fn with_module(module: &str, python: &mut Command) -> Option<Output> {
    let Ok(output) = python.output() else {
        println!("skipped: no python3");
        return None;
    };
    if String::from_utf8_lossy(&output.stderr).contains(&format!("No module named '{module}'")) {
        println!("skipped: python3 has no module {module}");
        return None;
    }
    Some(output)
}
