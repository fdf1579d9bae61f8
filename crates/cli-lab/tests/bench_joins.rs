//! Tests the command line and the output of `numapilot bench w3` and `numapilot bench w4`.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use predicates::prelude::*;
use predicates::str::{contains, is_match};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("numapilot"));
    command.arg("bench").args(arguments).env("NO_COLOR", "1");
    command
}

fn json(arguments: &[&str]) -> Value {
    let output = bench(arguments).args(SMALL).arg("--json").assert().success().stderr("");
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

const SMALL: [&str; 4] = ["--small", "5k", "--large", "80k"];

/// The methods of joining.
const WAYS: [&[&str]; 6] = [
    &["w3", "--table", "hash"],
    &["w3", "--table", "array"],
    &["w4", "--index", "art"],
    &["w4", "--index", "masstree"],
    &["w4", "--index", "skiplist"],
    &["w4", "--index", "btree"],
];

#[test]
fn json_keeps_its_contract() {
    for way in WAYS {
        let outcome = json(&[way, &["--check", "-t", "3", "--materialize"][..]].concat());
        assert_eq!(outcome["workload"], way[0]);
        let what = way[1].trim_start_matches('-');
        assert_eq!(outcome["parameters"][what], way[2]);
        assert_eq!(outcome["parameters"]["data"], "shuffle");
        assert_eq!(outcome["parameters"]["materialize"], true);
        assert_eq!((&outcome["threads"], &outcome["rows"]), (&3.into(), &80_000.into()));
        assert_eq!(outcome["checked"], true);
        let phases = outcome["phases"].as_object().unwrap();
        let probing = if way[0] == "w3" { "probe" } else { "join" };
        assert!(phases.len() == 3 && phases.contains_key("load"), "{phases:?}");
        let sum = phases["build"].as_f64().unwrap() + phases[probing].as_f64().unwrap();
        assert!((outcome["seconds"].as_f64().unwrap() - sum).abs() < 1e-9);
        assert_eq!(outcome["checksum"].as_str().unwrap().len(), 16);
        // Both tables and the result are resident: 85,000 tuples and 80,000 rows, 16 bytes each.
        assert!(outcome["peak_rss_bytes"].as_u64().unwrap() > 2_600_000);
    }
}

#[test]
fn the_checksum_depends_on_the_data_alone() {
    let checksum = |arguments: &[&str]| json(arguments)["checksum"].clone();
    let usual = checksum(&["w3"]);
    for way in WAYS {
        assert_eq!(usual, checksum(way));
    }
    let chunked = ["w3", "--materialize", "--allocation-pattern", "chunked", "--load", "main"];
    assert_eq!(usual, checksum(&chunked));
    assert_ne!(usual, checksum(&["w3", "--seed", "2"]));
    let skewed = checksum(&["w3", "--data", "zipf"]);
    assert_ne!(usual, skewed);
    assert_eq!(skewed, checksum(&["w4", "--data", "zipf", "--threads", "1"]));
}

#[test]
fn phases_are_printed_apart_and_lines_for_programs_are_there() {
    let lines = is_match(r"(?m)^seconds \d+\.\d+$").unwrap();
    let lines = lines.and(is_match(r"(?m)^checksum [0-9a-f]{16} \(checked\)$").unwrap());
    let phases = contains(" build ").and(contains(" join ")).and(contains("rows 80000\n"));
    let title = contains("w4: index nested-loop join, B+ tree, 5,000 with 80,000 tuples");
    bench(&["w4", "--index", "btree", "--check"])
        .args(SMALL)
        .assert()
        .success()
        .stdout(lines.and(phases).and(title));
}

#[test]
fn few_dense_keys_are_joined_by_an_array_unless_another_method_is_given() {
    let table =
        |arguments: &[&str]| json(&[&["w3"], arguments].concat())["parameters"]["table"].clone();
    assert_eq!((table(&[]), table(&["--table", "hash"])), ("array".into(), "hash".into()));
    bench(&["w3", "--small", "1100k", "--large", "1"])
        .assert()
        .success()
        .stdout(contains("hash join"));
    bench(&["w3", "--small", "1k", "--large", "1"])
        .assert()
        .success()
        .stdout(contains("array join"));
}

#[test]
fn a_dump_holds_both_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables");
    bench(&["w3", "--small", "10", "--large", "25", "--dump"]).arg(&path).assert().success();
    let bytes = fs::read(&path).unwrap();
    let words: Vec<u64> =
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let tuples: Vec<(u64, u64)> = words.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    assert_eq!(tuples.len(), 35);
    for block in [&tuples[..10], &tuples[10..20], &tuples[20..30]] {
        let mut keys: Vec<u64> = block.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        assert!(keys.into_iter().eq(1..=10));
    }
    assert!(tuples[10..].iter().map(|(_, payload)| *payload).eq(1..=25));
}

#[test]
fn bad_input_is_named() {
    for (arguments, message) in [
        (&["w3", "--small", "0"][..], "give --small and --large at least 1"),
        (&["w4", "--large", "0"], "give --small and --large at least 1"),
        (&["w3", "--small", "1000T"], "are available; lower --small or --large"),
        (&["w4", "--large", "1000T", "--materialize"], "or leave --materialize out"),
        (&["w3", "--small", "18446744073709551615", "--large", "18446744073709551615"], "MiB"),
        (&["w3", "--threads", "0"], "--threads"),
        (&["w3", "--data", "uniform"], "shuffle, zipf"),
        (&["w4", "--index"], "--index"),
        (&["w4", "--index", "hash"], "art, masstree, skiplist, btree"),
        (&["w3", "--index", "art"], "--index"),
        (&["w3", "--table", "tree"], "auto, hash, array"),
        (&["w3", "--small", "10", "--large", "9", "--dump", "/no/such/file"], "/no/such/file"),
    ] {
        bench(arguments)
            .assert()
            .code(125)
            .stdout("")
            .stderr(contains(message).and(contains("error:")));
    }
}

#[test]
fn a_memory_limit_ends_in_an_error() {
    // The input of 256 MB fits, but the result of the same size does not.
    let binary = cargo_bin("numapilot");
    let run = "bench w3 -t 1 --small 100k --large 16M --materialize";
    let line = format!("ulimit -v 450000; exec {} {run}", binary.display());
    Command::new("bash")
        .args(["-c", &line])
        .assert()
        .code(125)
        .stdout("")
        .stderr(contains("malloc refused"));
}
