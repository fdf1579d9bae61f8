//! `numapilot bench kernel`: the answer is correct under every placement, and on a machine of
//! several nodes the pages are where the placement puts them.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod guests;

use std::collections::{BTreeMap, BTreeSet};

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use guests::{NUMAPILOT, boots, err, lab};
use numapilot_workloads::kernels::Kernel;
use predicates::prelude::*;
use serde_json::Value;

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("numapilot"));
    command.args(["bench", "kernel"]).args(arguments).env("NO_COLOR", "1");
    command
}

fn json(arguments: &[&str]) -> Value {
    let output = bench(arguments).arg("--json").assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

#[test]
fn every_kernel_has_one_answer_under_all_placements() {
    // With 3 threads the parts do not divide the size evenly.
    let outcomes = json(&["all", "--size", "3M", "--threads", "3"]);
    let mut checksums: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for outcome in outcomes.as_array().unwrap() {
        assert_eq!(outcome["threads"], 3);
        assert!(outcome["seconds"].as_f64().unwrap() > 0.0, "{outcome}");
        let checksum = outcome["checksum"].as_str().unwrap();
        assert_eq!(checksum.len(), 16);
        checksums.entry(outcome["workload"].as_str().unwrap()).or_default().insert(checksum);
    }
    assert_eq!(checksums.len(), 12);
    for (kernel, checksums) in checksums {
        // k11 also counts the writes that reached each copy, and the number of copies varies.
        let copies = kernel == Kernel::ReadMostly.name();
        assert!(checksums.len() == 1 || copies, "{kernel}: {checksums:?}");
    }
}

/// In some kernels a round changes the data of the next one. The answer is checked in all of them.
#[test]
fn the_work_goes_on_for_the_given_time() {
    for kernel in Kernel::ALL {
        let outcome = json(&[kernel.name(), "--size", "2M", "--threads", "2", "--for", "40ms"]);
        let rounds = outcome["rounds"].as_array().unwrap();
        let ended = |round: &Value| round["ended_seconds"].as_f64().unwrap();
        assert!(rounds.is_sorted_by_key(ended), "{outcome}");
        assert!(ended(rounds.last().unwrap()) >= 0.04, "{outcome}");
        assert!(rounds.iter().rev().skip(1).all(|round| ended(round) < 0.04), "{outcome}");
        assert!(outcome["settled_items_per_second"].as_f64().unwrap() > 0.0, "{outcome}");
    }
    assert!(json(&["k4", "--size", "1M"])["rounds"].is_null());
}

#[test]
fn kernels_run_under_what_is_to_help_them() {
    let arguments = ["all", "k2", "k3", "--under", "none,default,oracle", "--size", "2M"];
    let more = ["--for", "5ms", "--interval", "200ms", "--runs", "2"];
    let outcomes = json(&[&arguments[..], &more].concat());
    let runs: Vec<(&str, &str, &str)> = outcomes
        .as_array()
        .unwrap()
        .iter()
        .map(|o| (&o["workload"], &o["under"], &o["mitigation"]))
        .map(|(workload, under, mitigation)| {
            (workload.as_str().unwrap(), under.as_str().unwrap(), mitigation.as_str().unwrap())
        })
        .collect();
    assert_eq!(
        runs,
        [
            ("k2-init1-slices", "none", "first-touch"),
            ("k2-init1-slices", "default", "first-touch"),
            ("k2-init1-slices", "oracle", "collocate"),
            ("k3-probe", "none", "first-touch"),
            ("k3-probe", "default", "first-touch"),
            ("k3-probe", "oracle", "interleave"),
        ]
    );
    bench(&["all", "k2", "--under", "none", "--size", "2M"])
        .assert()
        .success()
        .stdout(predicate::str::contains("k2-init1-slices  none"));
}

#[test]
fn json_keeps_its_contract() {
    let outcome = json(&["k11", "--size", "1M", "-t", "2", "--writes-every", "10", "--seed", "7"]);
    assert_eq!(outcome["workload"], "k11-read-mostly");
    assert_eq!(outcome["parameters"]["place"], "first-touch");
    assert_eq!(outcome["parameters"]["bytes"], 1 << 20);
    assert_eq!(outcome["parameters"]["writes_every"], 10);
    assert_eq!(outcome["time"], "wall");
    assert!(outcome["items_per_second"].as_f64().unwrap() > 0.0);
    assert!(outcome["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
    // The speed of this machine is not known.
    assert!(outcome["predicted_seconds"].is_null());
    let why = outcome["unsupported"]["predicted_seconds"].as_str().unwrap();
    assert!(why.contains("--machine"), "{why}");
    let pages: u64 = outcome["pages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["pages"].as_u64().unwrap())
        .sum();
    assert_eq!(pages * procfs::page_size(), 1 << 20);
}

#[test]
fn lines_for_programs_are_where_they_should_be() {
    let seconds = predicate::str::is_match(r"(?m)^seconds \d+\.\d+$").unwrap();
    let checksum = predicate::str::is_match(r"(?m)^checksum [0-9a-f]{16} \(checked\)$").unwrap();
    let best = predicate::str::contains("placement best, which is interleave");
    let unsupported = predicate::str::contains(
        "predicted <not supported> (the speed of this machine's memory is unknown",
    );
    bench(&["k4", "--place", "best", "--size", "1M", "-t", "2"])
        .assert()
        .success()
        .stdout(seconds.and(checksum).and(best).and(unsupported));
}

#[test]
fn a_kernel_has_two_names_and_a_period() {
    let answer = |name: &str| json(&[name, "--size", "1M", "-t", "2"])["checksum"].clone();
    assert_eq!(answer("k8"), answer("k8-good-local"));
    let rotated = json(&["k6", "--size", "1M", "-t", "2", "--period", "1h"]);
    assert_eq!(rotated["notes"][0], "threads moved 0 times, pages followed 0 times");
    assert_eq!(rotated["checksum"], answer("k6-rotate"));
}

#[test]
fn bad_input_is_named() {
    for (arguments, message) in [
        (&["k4", "--place", "replicate"][..], "first-touch, interleave, local, collocate, best"),
        (&["k4", "--place", "everywhere"], "first-touch"),
        (&["k2", "--size", "4K", "-t", "2"], "raise --size to at least 8,192"),
        (&["k9", "--size", "1M", "-t", "2"], "raise --size to at least 2,097,152"),
        (&["k1", "--size", "1000T"], "are available; lower --size"),
        (&["k1", "--size", "0"], "is not a size"),
        (&["k10", "-t", "1", "--size", "1M"], "k10-skew needs at least 2 threads"),
        (&["k12", "-t", "1", "--size", "1M"], "k12-pipe needs at least 2 threads"),
        (&["k1", "--threads", "0"], "--threads"),
        (&["k1", "--machine", "nothing", "--size", "1M"], "nothing"),
        (&["k6", "--period", "soon"], "is not a duration"),
        (&["k11", "--writes-every", "0"], "--writes-every"),
        (&["k13"], "unrecognized"),
        (&["all", "k13"], "choose one of k1 to k12"),
        (&["all", "--svg", "/no/such/place/x.svg"], "cannot write"),
        (&["all", "--lab", "nothing", "k1"], "nothing"),
    ] {
        bench(arguments)
            .assert()
            .code(125)
            .stderr(predicate::str::contains(message).and(predicate::str::contains("error:")));
    }
}

#[test]
fn a_description_of_another_machine_predicts_nothing() {
    let outcome = json(&["k2", "--size", "1M", "-t", "2", "--machine", "xeon-8153"]);
    let why = outcome["unsupported"]["predicted_seconds"].as_str().unwrap();
    assert!(why.starts_with("xeon-8153 has 8 nodes, this machine has "), "{why}");
}

#[test]
fn the_picture_has_a_bar_for_every_placement() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kernels.svg");
    bench(&["all", "k2", "k7", "--size", "1M", "-t", "2", "--svg"])
        .arg(&path)
        .assert()
        .success()
        .stdout(predicate::str::contains("k7-burst").and(predicate::str::contains("vs pathology")));
    let picture = std::fs::read_to_string(path).unwrap();
    assert!(picture.starts_with("<svg"));
    let best = picture.matches("class=\"dot1\"").count();
    assert_eq!(best, 2 + 1, "the best placement of each kernel, and the legend");
}

/// Pages on each node, by kernel and placement.
type Pages = BTreeMap<(String, String), Vec<u64>>;

/// Runs the kernels on an emulated machine of four nodes, without its timing model.
fn on_four_nodes() -> Option<Pages> {
    if !boots() {
        return None;
    }
    let mut words = vec!["run", "--machine", "opteron-8385", "--no-model"];
    words.extend(["--numa-balancing", "off", "--", NUMAPILOT, "bench", "kernel", "all"]);
    words.extend(["k1", "k2", "k4", "k5", "k9", "k10", "k12", "--size", "4M", "--json"]);
    let output = lab(&words);
    assert!(output.status.success(), "{}", err(&output));
    let outcomes: Value = serde_json::from_slice(&output.stdout).unwrap();
    let one = |outcome: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let nodes = outcome["pages"].as_array().unwrap().iter();
        let key = (text(&outcome["workload"]), text(&outcome["parameters"]["place"]));
        (key, nodes.map(|node| node["pages"].as_u64().unwrap()).collect())
    };
    Some(outcomes.as_array().unwrap().iter().map(one).collect())
}

#[test]
fn pages_are_where_each_mitigation_puts_them() {
    let Some(all) = on_four_nodes() else { return };
    let pages =
        |kernel: Kernel, place: &str| all[&(kernel.name().to_owned(), place.to_owned())].clone();
    let even = vec![256; 4];
    for kernel in [Kernel::Init1Readall, Kernel::Init1Slices, Kernel::Gups] {
        assert_eq!(pages(kernel, "first-touch"), [1024, 0, 0, 0], "{kernel}");
        assert_eq!(pages(kernel, "interleave"), even, "{kernel}");
        assert_eq!(pages(kernel, "local"), even, "{kernel}");
    }
    assert_eq!(pages(Kernel::Init1Readall, "replicate"), [1024; 4]);
    assert_eq!(pages(Kernel::Init1Readall, "best"), [1024; 4]);
    // The last of eight threads runs on the last node.
    assert_eq!(pages(Kernel::Init1Readall, "collocate"), [0, 0, 0, 1024]);
    assert_eq!(pages(Kernel::Init1Slices, "collocate"), even);
    assert_eq!(pages(Kernel::Swapped, "collocate"), even);
    assert_eq!(pages(Kernel::ThpFalseSharing, "split"), even);
    assert_eq!(pages(Kernel::ThpFalseSharing, "first-touch"), [1024, 0, 0, 0]);
    // The busy node gets one page for every four on each other node.
    assert_eq!(pages(Kernel::Skew, "weighted-interleave"), [78, 316, 315, 315]);
    assert_eq!(pages(Kernel::Pipe, "first-touch"), [1024, 0, 0, 0]);
    assert_eq!(pages(Kernel::Pipe, "consumer"), [0, 0, 1024, 0]);
}
