//! Tests of `numapilot topo`: text for other machines, this machine's JSON, bad input.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/topology/tests/corpus");

fn topo(arguments: &[&str]) -> Output {
    Command::new(NUMAPILOT).arg("topo").args(arguments).output().unwrap()
}

/// The text for a recorded machine.
fn picture(name: &str) -> String {
    let output = topo(&["--root", &format!("{CORPUS}/{name}.recording")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn machines_fit_into_80_columns() {
    for name in ["epyc-7302-nps4", "xeon-cxl", "arm-holes", "guest-cpuset", "hybrid"] {
        let picture = picture(name);
        let widest = picture.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{name}: {widest} columns");
        insta::assert_snapshot!(name, picture);
    }
}

#[test]
fn json_has_the_fields_that_scripts_rely_on() {
    let output = topo(&["--json"]);
    assert!(output.status.success());
    let machine: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(machine["name"].is_string());
    let nodes = machine["nodes"].as_array().unwrap();
    assert!(!nodes.is_empty());
    for node in nodes {
        assert!(node["id"].is_u64() && node["cpus"].is_array() && node["memory_bytes"].is_u64());
        assert_eq!(node["distances"].as_array().unwrap().len(), nodes.len());
    }
}

#[test]
fn a_recorded_machine_is_shown_as_the_machine_itself() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("here.recording");
    let file = file.to_str().unwrap();
    assert!(topo(&["--record", file]).status.success());
    let parts = |output: Output| {
        let machine: Value = serde_json::from_slice(&output.stdout).unwrap();
        (machine["cpus"].clone(), machine["caches"].clone(), machine["allowed"].clone())
    };
    assert_eq!(parts(topo(&["--json", "--root", file])), parts(topo(&["--json"])));
}

#[test]
fn bad_roots_are_named_and_end_with_125() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().to_str().unwrap();
    let nonsense = directory.path().join("nonsense");
    fs::write(&nonsense, "not a recording\n").unwrap();
    let nonsense = nonsense.to_str().unwrap();
    for (root, expected) in [
        ("/nonexistent", "--root /nonexistent is not there; name a directory"),
        (empty, "sys/devices/system/cpu is missing"),
        (nonsense, "is not a recording of a machine"),
    ] {
        let output = topo(&["--root", root]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{error}");
        assert!(error.starts_with("numapilot: error: ") && error.contains(expected), "{error}");
        assert!(output.stdout.is_empty());
    }
}

/// A device has no end, so every file that a user names is read up to a limit only.
#[test]
fn what_has_no_end_is_refused_with_the_limit() {
    for (option, limit) in [("--root", "67108864"), ("--machine", "1048576")] {
        let output = topo(&[option, "/dev/zero"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{error}");
        assert!(error.contains(&format!("more than {limit} bytes")), "{error}");
    }
}

/// A short text that stands for gigabytes is refused. A recording is not unpacked, so a signal at
/// the wrong moment leaves nothing behind.
#[test]
fn a_recording_takes_no_more_than_its_limits_and_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let (bomb, temporary) = (directory.path().join("bomb"), directory.path().join("temporary"));
    fs::create_dir(&temporary).unwrap();
    let cpus = "sys/devices/system/cpu/cpu[0-65535]/cache/index";
    let text = "x".repeat(60 << 10);
    let flood: String = (0..5).map(|i| format!("{cpus}{i}/size = 1K\n")).collect();
    for (recording, expected) in [
        (format!("{cpus}0/size = {text}\n"), "more than 67108864 bytes"),
        (flood.clone() + "a = 1\n", "more than 327680 files"),
        // The largest number of files that is permitted.
        (flood, "sys/devices/system/cpu/online is missing"),
    ] {
        fs::write(&bomb, recording).unwrap();
        let output = Command::new(NUMAPILOT)
            .args(["topo", "--root"])
            .arg(&bomb)
            // A directory in which it could write.
            .env("TMPDIR", &temporary)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{error}");
        assert!(error.contains(expected), "{error}");
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child =
        Command::new(NUMAPILOT).args(["topo", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_picture_that_cannot_be_written_is_called_what_the_user_calls_it() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_numapilot"))
        .args(["topo", "--svg", "/nonexistent/x.svg"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "numapilot: error: cannot write /nonexistent/x.svg: No such file or directory (os error \
         2); make its directory, or choose another place\n"
    );
}
