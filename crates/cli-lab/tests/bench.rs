//! Tests the command line and the output of `numapilot bench`.

use std::fs;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use predicates::prelude::*;
use serde_json::Value;

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("numapilot"));
    command.arg("bench").args(arguments).env("NO_COLOR", "1");
    command
}

const SMALL: [&str; 4] = ["--records", "100k", "--groups", "1k"];

#[test]
fn json_keeps_its_contract() {
    for workload in ["w1", "w2"] {
        let output = bench(&[workload, "--json", "--check", "--data", "zipf", "-t", "3"])
            .args(SMALL)
            .assert()
            .success()
            .stderr("");
        let outcome: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
        assert_eq!(outcome["workload"], workload);
        assert_eq!(outcome["threads"], 3);
        assert_eq!(outcome["checked"], true);
        assert_eq!(outcome["parameters"]["data"], "zipf");
        assert_eq!(outcome["parameters"]["records"], 100_000);
        assert!(outcome["seconds"].as_f64().unwrap() > 0.0);
        assert!(outcome["items_per_second"].as_f64().unwrap() > 0.0);
        // At least the 100,000 records of 16 bytes are resident.
        assert!(outcome["peak_rss_bytes"].as_u64().unwrap() > 1_600_000);
        assert_eq!(outcome["checksum"].as_str().unwrap().len(), 16);
    }
}

#[test]
fn lines_for_programs_are_where_they_should_be() {
    let seconds = predicate::str::is_match(r"(?m)^seconds \d+\.\d+$").unwrap();
    let checksum = predicate::str::is_match(r"(?m)^checksum [0-9a-f]{16}$").unwrap();
    let no_blanks = predicate::str::is_match(r"(?m) $").unwrap().not();
    let all = seconds.and(checksum).and(no_blanks);
    bench(&["w2"]).args(SMALL).assert().success().stdout(all);
}

#[test]
fn the_checksum_depends_on_the_data_alone() {
    let checksum = |arguments: &[&str]| {
        let output = bench(arguments).args(SMALL).arg("--json").assert().success();
        let outcome: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
        outcome["checksum"].clone()
    };
    let usual = checksum(&["w1"]);
    assert_eq!(usual, checksum(&["w1", "--allocation-pattern", "chunked", "--load", "main"]));
    assert_eq!(usual, checksum(&["w1", "--threads", "7", "--estimate", "1"]));
    assert_eq!(usual, checksum(&["w1", "--insertion", "single"]));
    assert_ne!(usual, checksum(&["w1", "--seed", "2"]));
    assert_ne!(usual, checksum(&["w1", "--data", "sequential"]));
}

#[test]
fn a_dump_holds_the_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records");
    bench(&["w2", "--records", "1000", "--groups", "10", "--data", "sequential", "--dump"])
        .arg(&path)
        .assert()
        .success();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 16_000);
    let keys: Vec<u64> =
        bytes.chunks(16).map(|r| u64::from_le_bytes(r[..8].try_into().unwrap())).collect();
    assert_eq!(keys[..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
}

#[test]
fn bad_sizes_are_named() {
    for (arguments, message) in [
        (&["w2", "--records", "0"][..], "give --records at least 1"),
        (&["w2", "--groups", "0"], "give --groups at least 1"),
        (&["w1", "--records", "5", "--groups", "6"], "lower --groups or raise --records"),
        (&["w1", "--records", "1000T"], "are available"),
        (&["w1", "--records", "ten"], "is not a count"),
        (&["w1", "--threads", "0"], "--threads"),
        (&["w1", "--data", "uniform"], "moving-cluster"),
        (&["w9"], "unrecognized"),
        (&["w2", "--records", "10", "--groups", "1", "--dump", "/no/such/file"], "/no/such/file"),
    ] {
        bench(arguments)
            .assert()
            .code(125)
            .stdout("")
            .stderr(predicate::str::contains(message).and(predicate::str::contains("error:")));
    }
}

#[test]
fn a_full_disk_and_a_closed_pipe() {
    bench(&["w2", "--records", "10k", "--groups", "10", "--dump", "/dev/full"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("could not be written to /dev/full"));
    let binary = cargo_bin("numapilot");
    let line = format!(
        "{} bench w2 --records 1k --groups 10 | true; echo ${{PIPESTATUS[0]}}",
        binary.display()
    );
    Command::new("bash").args(["-c", &line]).assert().success().stdout("0\n").stderr("");
}

#[test]
fn threads_that_cannot_start_are_an_error() {
    // The address space is too small for the stacks of a thousand threads. They are so large that
    // the stack of the first thread that does not fit leaves room for all else that threads need.
    let binary = cargo_bin("numapilot");
    let line = format!(
        "ulimit -v 800000; exec {} bench w2 --records 10k --groups 10 --threads 1000",
        binary.display()
    );
    Command::new("bash")
        .args(["-c", &line])
        .env("RUST_MIN_STACK", (64 << 20).to_string())
        .assert()
        .code(125)
        .stderr(predicate::str::contains("could not be started"));
}
