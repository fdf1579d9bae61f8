//! Tests of `numapilot topo` with described and measured machines.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn topo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_numapilot")).arg("topo").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn error_of(arguments: &[&str]) -> String {
    let output = topo(arguments);
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_shipped_machine_is_shown_and_a_copy_of_its_file_likewise() {
    let shipped = stdout(&topo(&["--machine", "machine-a"]));
    assert!(shipped.starts_with("machine-a: AMD Opteron 8220\n"));
    assert!(shipped.contains("   0 10 12 12 14 14 14 14 16\n"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine-a.toml");
    let original = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/machine-a.toml");
    fs::copy(original, &file).unwrap();
    assert_eq!(stdout(&topo(&["--machine", file.to_str().unwrap()])), shipped);
}

#[test]
fn json_has_what_scripts_rely_on() {
    let report: Value =
        serde_json::from_str(&stdout(&topo(&["--machine", "cxl", "--json"]))).unwrap();
    assert_eq!(report["name"], "cxl");
    assert_eq!(report["nodes"][1]["cpus"], serde_json::json!([]));
    assert_eq!(report["nodes"][1]["memory_bytes"], 256u64 << 30);
    assert_eq!(report["nodes"][0]["distances"], serde_json::json!([10, 23]));
    assert!(report.get("measurement").is_none());
}

#[test]
fn a_picture_is_a_whole_document() {
    let picture = stdout(&topo(&["--machine", "xeon-8153", "--svg", "-"]));
    assert!(picture.starts_with("<svg "));
    assert!(picture.ends_with("</svg>\n"));
    assert_eq!(picture.matches("class=\"box\"").count(), 8);
    // Sixteen links and one line in the legend.
    assert_eq!(picture.matches("<path ").count(), 17);
}

#[test]
fn bad_descriptions_name_file_place_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let name = file.to_str().unwrap();
    fs::write(&file, "").unwrap();
    assert!(error_of(&["--machine", name]).contains("missing field `title`"));
    fs::write(&file, "title = \"x\"\nsauce = \"y\"\n").unwrap();
    let error = error_of(&["--machine", name]);
    assert!(error.contains("unknown field `sauce`"), "{error}");
    assert_eq!(error.matches(name).count(), 1, "{error}");
    assert!(error_of(&["--machine", "machine-d"]).contains("name a description file or one of"));
    assert!(error_of(&["--machine", "machine-a", "--svg", "/nowhere/x.svg"]).contains("/nowhere"));
}

#[test]
fn measuring_another_machine_is_refused() {
    assert!(error_of(&["--measure", "--machine", "cxl"]).contains("cannot be used with"));
    assert!(error_of(&["--save", "x.toml"]).contains("--measure"));
    assert!(error_of(&["--measure", "--measure-size", "4K"]).contains("4 KiB is too little"));
}

#[test]
fn what_is_measured_can_be_saved_and_shown_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("here.toml");
    let name = file.to_str().unwrap();
    let output = topo(&["--measure", "--json", "--save", name]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let unsupported = report["measurement"]["unsupported"].as_array().unwrap();
    if !output.status.success() {
        // A machine that this process may use only in part cannot be saved; the reason is given.
        assert!(!unsupported.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        eprintln!("skipped: this process may not use all of the machine: {unsupported:?}");
        return;
    }
    let again: Value =
        serde_json::from_str(&stdout(&topo(&["--machine", name, "--json"]))).unwrap();
    for (before, after) in
        report["nodes"].as_array().unwrap().iter().zip(again["nodes"].as_array().unwrap())
    {
        assert_eq!(before["cpus"], after["cpus"]);
        assert_eq!(before["memory_bytes"], after["memory_bytes"]);
        assert_eq!(before["distances"], after["distances"]);
    }
    let latency = |report: &Value| report["figures"]["latency_ns"][0][0].as_f64().unwrap();
    assert!((latency(&report) - latency(&again)).abs() < 0.06);
}

#[test]
fn the_list_of_machines_fits_a_terminal() {
    let list =
        Command::new(env!("CARGO_BIN_EXE_numapilot")).args(["lab", "list"]).output().unwrap();
    let list = stdout(&list);
    assert!(list.contains("AMD Opteron 8220"), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
}
