//! `tune --lab`: the best plan on an emulated machine.

use std::fs;
use std::process::{Command, Output, Stdio};

use numapilot_place::find_program;
use serde_json::Value;

use crate::guests::{NUMAPILOT, boots, compiled, err};

/// A machine of two nodes. Remote memory takes 1.7 times as long as local memory.
const MACHINE: &str = "threadripper-1950x";

/// Levels that leave two plans: the default, and memory on the second node.
const FACTORS: [&str; 10] = [
    "--factor",
    "allocator=inherit",
    "--factor",
    "threads=none",
    "--factor",
    "memory=bind:1",
    "--factor",
    "thp=inherit",
    "--factor",
    "numa-balancing=inherit",
];

/// `numapilot` without cargo's search path for libraries, which would make the guest's loader search
/// many directories in the program's time.
fn numapilot() -> Command {
    let mut command = Command::new(NUMAPILOT);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

fn tune(directory: &std::path::Path, options: &[&str], command: &[&str]) -> Output {
    let mut tune = numapilot();
    tune.args(["tune", "--lab", MACHINE, "--json", "--state", "state"]).args(options);
    tune.arg("--").args(command).current_dir(directory).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn memory_comes_to_a_program_that_has_gone_to_another_node() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("remote.c", directory.path()) else { return };
    let program = program.to_str().unwrap();
    let options = [&FACTORS[..], &["--max-runs", "15", "--check", r"at (\d+)"]].concat();
    let output = tune(directory.path(), &options, &[program]);
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["metric"], "simulated time", "{report}");
    let best = &report["best"];
    assert_eq!(best["plan"], "bind 1", "{report}");
    // The rest of the program's time does not depend on the memory.
    let ratio = best["ratio"].as_f64().unwrap();
    assert!((1.0 / 1.71..0.8).contains(&ratio), "{ratio}");
    let profile = fs::read_to_string(directory.path().join("numapilot.toml")).unwrap();
    assert!(
        profile.contains("# Machine: threadripper-1950x, emulated; times are simulated\n"),
        "{profile}"
    );
    // Anybody can repeat a run of the search, to the last digit.
    let trials = fs::read_to_string(directory.path().join("state/trials.jsonl")).unwrap();
    let first = trials.lines().find(|line| line.contains("\"trial\"")).unwrap();
    let first: Value = serde_json::from_str(first).unwrap();
    let again = numapilot()
        .args(["lab", "run", "--machine", MACHINE, "--json", "--output", "figures.json"])
        .args(["--seed", "1", "--", "numapilot", "run", "--strict", "--profile"])
        .args(["state/plan-0.toml", "--", program])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(again.status.success(), "{}", err(&again));
    let figures = fs::read_to_string(directory.path().join("figures.json")).unwrap();
    let figures: Value = serde_json::from_str(&figures).unwrap();
    let regions = figures["regions"].as_array().unwrap();
    let region = regions.iter().find(|region| region["name"] == "program").unwrap();
    assert_eq!(region["simulated_seconds"], first["trial"]["outcome"]["value"], "{first}");
}

/// A server whose load reports a rate: `tune` starts both in the guest, and what they need is there.
#[test]
fn a_server_is_put_under_load_in_the_guest() {
    if !boots() {
        return;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if find_program("redis-server".as_ref(), &path).is_none() {
        println!("skipped: redis is not installed; Debian: apt-get install redis");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let search = |state: &str, ready: &str, load: &str| {
        let mut tune = numapilot();
        tune.args(["tune", "--lab", MACHINE, "--json", "--max-runs", "15", "--force"]);
        // The directory of the results has a name of numapilot's own.
        tune.env("XDG_STATE_HOME", directory.path().join(state));
        tune.args(["--server", "redis-server --port 7201 --save ''"]);
        tune.args(["--ready", ready, "--load", load, "--load-cpus", "1"]).args(FACTORS);
        tune.args(["--metric", "SET: ([0-9.]+) requests", "--maximize"]);
        tune.current_dir(directory.path()).stdin(Stdio::null()).output().unwrap()
    };
    let load = "redis-benchmark -p 7201 -n 300 -t set -q";
    let output = search("state", "redis-cli -p 7201 ping", load);
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let plans = report["plans"].as_array().unwrap();
    let names: Vec<_> = plans.iter().map(|plan| plan["plan"].as_str().unwrap()).collect();
    assert!(names.contains(&"default") && names.contains(&"bind 1"), "{report}");
    assert!(plans.iter().all(|plan| plan["failed"] == 0), "{report}");
    // The emulated processor has 3.4 GHz; a request takes microseconds.
    let rate = report["default"]["median"].as_f64().unwrap();
    assert!((1e4..1e6).contains(&rate), "{report}");
    // What only the guest can tell ends the search, with its message.
    let missing = err(&search("other", "no-such-program -p 7201", load));
    assert!(missing.contains("no-such-program: not found"), "{missing}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |options: &[&str], command: &[&str], status: i32, expected: &str| {
        let output = tune(directory.path(), options, command);
        let message = err(&output);
        assert_eq!(output.status.code(), Some(status), "{options:?} {message}");
        assert!(message.contains(expected), "{options:?}: {message}");
        assert!(!directory.path().join("numapilot.toml").exists());
    };
    refused(&["--limit", "rss=1G"], &["true"], 125, "is not measured");
    refused(&["--allow-machine-wide"], &["true"], 125, "--allow-machine-wide");
    refused(&["--time-scale", "0"], &["true"], 125, "--time-scale");
    refused(&[], &["no-such-program"], 127, "no-such-program");
    if !boots() {
        return;
    }
    let options = [&FACTORS[..], &["--max-runs", "15"]].concat();
    refused(&options, &["false"], 125, "runs fail without any plan");
    // A plan that the machine has no node for is not tried.
    let mut nodes = options.clone();
    nodes[5] = "memory=bind:9";
    let output = tune(directory.path(), &nodes, &["true"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let skipped = report["skipped"].to_string();
    assert!(skipped.contains("node 9"), "{report}");
    assert_eq!(report["plans"].as_array().unwrap().len(), 1, "{report}");
    fs::write(directory.path().join("nine.toml"), "[memory]\nmode = \"bind\"\nnodes = \"9\"\n")
        .unwrap();
    refused(&["--plan", "nine.toml"], &["true"], 125, "node 9");
}

/// A guest can die of a plan, for example if a node's memory is used up.
#[test]
fn a_plan_that_ends_the_guest_has_failed_and_the_search_goes_on() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = "grep -q 'bind:1' /proc/self/numa_maps && echo c > /proc/sysrq-trigger; true";
    let options = [&FACTORS[..], &["--max-runs", "15", "--include", "grep"]].concat();
    let output = tune(directory.path(), &options, &["sh", "-c", script]);
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let plans = report["plans"].as_array().unwrap();
    let reason = plans.iter().find(|plan| plan["plan"] == "bind 1").unwrap()["reason"].to_string();
    assert!(reason.contains("the lab ended without figures"), "{reason}");
}
