//! Tests of `numapilot profile`, and of the warning about launchers that the plan does not reach.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod launchers;
mod slurm;
mod slurm_cluster;
mod slurm_plugin;
mod systemd;
mod targets;
mod via;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

/// A folder with a profile.
fn folder(profile: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.toml"), profile).unwrap();
    folder
}

fn numapilot(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(NUMAPILOT).current_dir(folder).args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn success(folder: &Path, arguments: &[&str]) -> String {
    let output = numapilot(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    out(&output)
}

fn failure(folder: &Path, arguments: &[&str]) -> String {
    let output = numapilot(folder, arguments);
    assert_eq!(output.status.code(), Some(125), "{arguments:?}: {}", err(&output));
    assert_eq!(out(&output), "");
    err(&output)
}

/// An allocator that exists in every build of numapilot.
fn own_allocator() -> PathBuf {
    Path::new(NUMAPILOT).with_file_name("libnumapilot_alloc.so")
}

#[test]
fn a_profile_is_shown_in_words() {
    let folder = folder(
        "thp = \"never\"\n[memory]\nmode = \"interleave\"\n[measured]\n\
         topology = \"0123456789abcdef\"\nprocessor = \"Model\\u001b X\"\ndate = \"2026-01-31\"\n\
         metric = \"wall time\"\nratio = 0.8\ninterval = [0.75, 0.85]\n",
    );
    let text = success(folder.path(), &["profile", "show", "p.toml"]);
    let lines: Vec<&str> = text.lines().collect();
    let start = [
        "thp: never (none for this program)",
        "memory: interleave all (in turn)",
        "measured: on 2026-01-31, Model\\x1b X",
        "result: wall time 0.800 times that of the default (0.750 to 0.850)",
    ];
    assert_eq!(lines[..4], start, "{text}");
    assert!(lines[4].contains("another topology (0123456789abcdef"), "{text}");
    fs::write(folder.path().join("p.toml"), "# nothing\n").unwrap();
    let nothing = success(folder.path(), &["profile", "show", "p.toml"]);
    assert_eq!(nothing, "nothing: the program runs as without numapilot\n");
}

#[test]
fn what_takes_effect_is_read_back() {
    let allocator = own_allocator();
    let folder = folder(&format!(
        "allocator = \"{}\"\nthreads = \"dense\"\ncpus = \"+0\"\nthp = \"never\"\n[memory]\n\
         mode = \"interleave\"\n",
        allocator.display()
    ));
    let output = numapilot(folder.path(), &["profile", "check", "p.toml"]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", err(&output));
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(rows.len(), 5, "{text}");
    for (row, setting) in
        rows.iter().zip(["memory interleave", "CPUs", "threads", "allocator", "thp"])
    {
        assert!(row.starts_with(setting) && row.contains("  yes: "), "{row}");
    }
    fs::write(folder.path().join("p.toml"), "# nothing\n").unwrap();
    let nothing = success(folder.path(), &["profile", "check", "p.toml"]);
    assert!(nothing.contains("no setting"), "{nothing}");
}

#[test]
fn what_has_no_effect_has_cause_and_remedy_and_status_1() {
    let folder = folder("[memory]\nmode = \"interleave\"\nbalancing = true\n");
    let output = numapilot(folder.path(), &["profile", "check", "p.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let text = out(&output);
    for part in ["memory balancing", "  no\n", "  why: the kernel samples", "  fix: combine -b"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let output = numapilot(folder.path(), &["profile", "check", "--json", "p.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let outcomes: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcomes[0]["state"], "in-effect");
    assert_eq!(outcomes[1]["setting"], "memory balancing");
    assert_eq!(outcomes[1]["state"], "not-in-effect");
    assert!(outcomes[1]["remedy"].is_string() && outcomes[1]["seen"].is_null(), "{outcomes}");
}

#[test]
fn a_profile_that_cannot_be_used_is_an_error() {
    let folder = folder("thp = \"sometimes\"\n");
    fs::write(folder.path().join("empty.toml"), "").unwrap();
    for verb in [&["show"][..], &["check"], &["export", "--to", "systemd"]] {
        let error = failure(folder.path(), &[&["profile"], verb, &["p.toml"]].concat());
        assert!(error.contains("profile p.toml, line 1: ") && error.contains("`never`"), "{error}");
        let error = failure(folder.path(), &[&["profile"], verb, &["missing.toml"]].concat());
        assert!(error.contains("cannot read profile missing.toml"), "{error}");
        failure(folder.path(), &[&["profile"], verb, &["."]].concat());
        let error = failure(folder.path(), &[&["profile"], verb, &["empty.toml"]].concat());
        assert!(error.contains("profile empty.toml is empty; write a setting"), "{error}");
    }
    fs::write(folder.path().join("p.toml"), "[memory]\nmode = \"bind\"\nnodes = \"999\"\n")
        .unwrap();
    for verb in [&["check"][..], &["export", "--to", "oci"]] {
        let error = failure(folder.path(), &[&["profile"], verb, &["p.toml"]].concat());
        assert!(error.contains("999"), "{error}");
    }
    let usage = failure(folder.path(), &["profile", "export", "p.toml", "--to", "cron"]);
    assert!(usage.contains("possible values: systemd, oci, docker"), "{usage}");
    let version = ["profile", "export", "p.toml", "--to", "oci", "--target-version", "new"];
    assert!(failure(folder.path(), &version).contains("'new' is not a version"));
    fs::write(folder.path().join("p.toml"), "thp = \"never\"\n").unwrap();
    let version = ["profile", "export", "p.toml", "--to", "docker", "--target-version", "3"];
    assert!(failure(folder.path(), &version).contains("no effect on what is written for docker"));
}
