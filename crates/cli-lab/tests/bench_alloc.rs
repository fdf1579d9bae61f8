//! Tests `numapilot bench alloc` with scripts in place of the programs.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use numapilot_test_kit::make_executable;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("numapilot"));
    command.args(["bench", "alloc"]).args(arguments).env("NO_COLOR", "1");
    command
}

fn script(directory: &Path, name: &str, text: &str) {
    make_executable(&directory.join(name), &mut format!("#!/bin/sh\n{text}\n").as_bytes());
}

/// Scripts in place of some programs: one that works, one with a fixed duration, and three that
/// fail in different ways.
fn programs() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    script(directory.path(), "cfrac", "exec true");
    script(directory.path(), "larson", "echo Throughput = 4000 operations per second");
    script(directory.path(), "mstress", "kill -SEGV $$");
    script(directory.path(), "rptest", "exec sleep 100");
    script(directory.path(), "xmalloc-test", "echo nothing");
    directory
}

fn json(command: &mut Command) -> Value {
    let output = command.arg("--json").assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

#[test]
fn without_the_suite_it_lists_what_would_be_compared() {
    let list = json(&mut bench(&[]));
    assert_eq!(list["workload"], "alloc-suite");
    assert_eq!(list["tests"].as_array().unwrap().len(), 10);
    assert_eq!(list["allocators"][0]["name"], "glibc");
    bench(&[]).assert().success().stdout(contains("threadtest").and(contains("glibc")));

    let programs = programs();
    let list = json(bench(&["--programs"]).arg(programs.path()));
    let missing = list["missing"].as_array().unwrap();
    assert!(missing.iter().any(|m| m["test"] == "barnes"), "{missing:?}");
}

#[test]
fn what_works_has_ratios_and_what_fails_is_listed() {
    let programs = programs();
    let mut command = bench(&["suite", "--rounds", "2", "--timeout", "1s", "-t", "3"]);
    command.args(["--allocators", "glibc", "--filter", "cfrac|larson$|mstress|rptest|xmalloc"]);
    let results = json(command.arg("--programs").arg(programs.path()));
    assert_eq!(results["reference"], "glibc");
    assert_eq!(results["threads"], 3);
    assert_eq!(results["is_interrupted"], false);
    let cell = |name: &str| {
        let tests = results["tests"].as_array().unwrap();
        let test = tests.iter().find(|t| t["test"] == name).unwrap();
        test["results"][0].clone()
    };
    let cfrac = cell("cfrac");
    assert_eq!(cfrac["runs"], 2);
    assert_eq!(cfrac["ratios"]["cpu"], 1.0);
    assert!(cfrac["peak_rss_bytes"].as_f64().unwrap() > 100_000.0, "{cfrac}");
    assert!(cfrac["page_faults"].as_f64().unwrap() > 10.0);
    // The time is per operation, of the 4000 that the program reports.
    assert!(cell("larson")["cpu_seconds"].as_f64().unwrap() < 0.001);
    for (name, reason) in [
        ("mstress", "killed by signal 11"),
        ("rptest", "timeout"),
        ("xmalloc", "the output has no figure"),
    ] {
        assert_eq!(cell(name)["failure"], reason, "{name}");
        assert_eq!(cell(name)["runs"], 0);
        assert_eq!(cell(name)["ratios"], Value::Null);
    }
    assert_eq!(results["geometric_means"][0]["tests"], 2);
}

#[test]
fn the_table_says_what_was_left_out() {
    let programs = programs();
    bench(&["suite", "--rounds", "1", "--allocators", "glibc", "--filter", "cfrac|mstress|z3"])
        .arg("--programs")
        .arg(programs.path())
        .env("PATH", "/nonexistent")
        .assert()
        .success()
        .stdout(
            contains("geometric mean")
                .and(contains("mstress under glibc failed: killed by signal 11"))
                .and(contains("z3 was not run: no program z3")),
        )
        .stderr(contains("left out: mstress under glibc"));
}

#[test]
fn an_allocator_is_seen_in_the_program_or_left_out() {
    let programs = tempfile::tempdir().unwrap();
    script(programs.path(), "cfrac", "sleep 0.3");
    let library = cargo_bin("numapilot").with_file_name("libnumapilot_alloc.so");
    if !library.exists() {
        println!("skipped: {} is not built", library.display());
        return;
    }
    let named = format!("glibc,other={}", library.display());
    let mut command = bench(&["suite", "--rounds", "1", "--filter", "cfrac", "--allocators"]);
    let results = json(command.arg(named).arg("--programs").arg(programs.path()));
    let other = &results["tests"][0]["results"][1];
    assert_eq!(other["allocator"], "other");
    assert_eq!((&other["runs"], &other["unverified_runs"]), (&1.into(), &0.into()));
}

#[test]
fn installed_programs_run_on_inputs_of_the_suite() {
    let mut command = bench(&["suite", "--rounds", "1", "--installed", "--filter", "sort|redis"]);
    // A directory with what `sort` needs, and without redis.
    let path = tempfile::tempdir().unwrap();
    for name in ["sh", "awk", "seq", "sort", "tail", "uniq"] {
        let program = ["/usr/bin", "/bin"].map(|d| Path::new(d).join(name));
        let program = program.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(program, path.path().join(name)).unwrap();
    }
    command.env("PATH", path.path()).env("TMPDIR", path.path());
    let results = json(command.args(["--allocators", "glibc"]));
    assert_eq!(results["tests"].as_array().unwrap().len(), 1);
    assert_eq!(results["tests"][0]["results"][0]["runs"], 1);
    assert_eq!(results["missing"][0]["reason"], "no program redis-server in $PATH");
    // The input files are gone.
    let left = fs::read_dir(path.path()).unwrap().flatten();
    let left: Vec<_> = left.filter(|entry| !entry.path().is_symlink()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_picture_is_drawn() {
    let programs = programs();
    let picture = programs.path().join("x.svg");
    bench(&["suite", "--rounds", "1", "--allocators", "glibc", "--filter", "cfrac|mstress"])
        .arg("--programs")
        .arg(programs.path())
        .arg("--svg")
        .arg(&picture)
        .assert()
        .success();
    let text = fs::read_to_string(picture).unwrap();
    assert!(text.starts_with("<svg") && text.contains("cfrac") && text.contains("failed"));
}

#[test]
fn bad_arguments_are_named_before_anything_runs() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (arguments, message) in [
        (&["suite", "--filter", "none"][..], "--filter matches no test"),
        (&["suite", "--filter", "("], "--filter"),
        (&["suite", "--allocators", "nomalloc"], "unknown allocator 'nomalloc'"),
        (&["suite", "--reference", "nomalloc"], "--reference nomalloc is not compared"),
        (&["suite", "--peers", "/nonexistent"], "--peers /nonexistent cannot be read"),
        (&["suite", "--peers", empty], "no library that exports malloc"),
        (&["suite", "--programs", "/nonexistent"], "--programs /nonexistent"),
        (&["suite", "--programs", empty, "--filter", "cfrac"], "no test can be run"),
        (&["suite", "--rounds", "0"], "--rounds"),
        (&["suite", "--timeout", "never"], "is not a duration"),
        (&["suite", "--svg", "/nonexistent/x.svg"], "/nonexistent/x.svg"),
        (&["--svg", "x.svg"], "unexpected argument '--svg'"),
        (&["suite", "compare"], "unexpected argument 'compare'"),
        (&["--suite"], "unexpected argument '--suite'"),
        (&["suite", "--threads", "1,2"], "--threads"),
        (&["compare", "--threads", "0"], "--threads"),
        (&["compare", "--threads", "1,x"], "--threads"),
        (&["compare", "--filter", "mix"], "--filter"),
        (&["suite", "--operations", "5"], "--operations"),
        (&["compare", "--operations", "many"], "is not a count"),
    ] {
        bench(arguments).assert().code(125).stdout("").stderr(contains(message));
    }
}

#[test]
fn every_micro_benchmark_keeps_the_contract_of_its_json() {
    let list = json(&mut bench(&[]));
    let tests = list["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 10);
    for test in tests {
        let command: Vec<&str> =
            test["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let [_, bench, alloc, name, ..] = command[..] else { panic!("{command:?}") };
        assert_eq!([bench, alloc], ["bench", "alloc"]);
        let mut command = Command::new(cargo_bin("numapilot"));
        command.args([bench, alloc, name, "-t", "3", "-n", "50", "--seed", "7"]);
        let outcome = json(&mut command);
        assert_eq!(outcome["workload"], format!("alloc-{name}"));
        assert_eq!(outcome["threads"], 3);
        assert_eq!(outcome["parameters"]["operations"], 50);
        assert_eq!(outcome["checksum"].as_str().unwrap().len(), 16);
        assert!(outcome["seconds"].as_f64().unwrap() > 0.0);
        assert!(outcome["items_per_second"].as_f64().unwrap() > 0.0);
        assert!(outcome["peak_rss_bytes"].as_u64().unwrap() > 1_000_000);
        assert!(outcome["allocations"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_micro_benchmark_prints_its_sizes_and_lines_for_programs() {
    Command::new(cargo_bin("numapilot"))
        .args(["bench", "alloc", "mix", "-t", "2", "-n", "200k"])
        .env("NO_COLOR", "1")
        .assert()
        .success()
        .stdout(
            predicates::str::is_match(r"(?m)^seconds \d+\.\d+$")
                .unwrap()
                .and(predicates::str::is_match(r"(?m)^ +8 B +\d[\d,]* +(49|50|51)\.\d %").unwrap())
                .and(predicates::str::is_match(r"(?m)^RSS / requested \d+\.\d\d$").unwrap())
                .and(
                    predicates::str::is_match(r"(?m)^checksum [0-9a-f]{16} \(checked\)$").unwrap(),
                ),
        );
}

#[test]
fn what_is_freed_is_watched() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(cargo_bin("numapilot"));
        command.args(["bench", "alloc", "return"]).args(arguments).env("NO_COLOR", "1");
        command
    };
    let outcome = json(&mut run(&["--bytes", "1M", "--watch", "200ms", "--keep", "16"]));
    assert_eq!(outcome["workload"], "alloc-return");
    assert_eq!(outcome["parameters"]["keep_one_in"], 16);
    let curves = outcome["curves"].as_array().unwrap();
    assert_eq!(curves.len(), 2);
    assert_eq!(
        (&curves[0]["activity"], &curves[1]["activity"]),
        (&"little".into(), &"none".into())
    );
    assert_eq!(curves[0]["moments"].as_array().unwrap().len(), 3);

    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("x.svg");
    let mut command = run(&["--bytes", "1M", "--watch", "200ms", "--below", "1", "--svg"]);
    command.arg(&picture).assert().success().stdout(
        contains("alloc-return: 1.00 MiB in objects of 64 B, all freed")
            .and(predicates::str::is_match(r"(?m)^ +0\.2 s( +\S+ \wiB){2}$").unwrap())
            .and(predicates::str::is_match(r"(?m)^ below 1 B +never +never$").unwrap()),
    );
    assert!(fs::read_to_string(picture).unwrap().contains("a little activity"));

    for (arguments, message) in [
        (&["--bytes", "9000T"][..], "lower --bytes"),
        (&["--keep", "0"], "--keep"),
        (&["--watch", "0s"], "is not a duration"),
        (&["--svg", "/nonexistent/x.svg"], "/nonexistent/x.svg"),
    ] {
        run(arguments).assert().code(125).stdout("").stderr(contains(message));
    }
}

#[test]
fn the_own_suite_runs() {
    let mut command = bench(&["suite", "--rounds", "1", "--filter", "cache", "-t", "2"]);
    let results = json(command.args(["--allocators", "glibc"]));
    let tests = results["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 2);
    for test in tests {
        assert_eq!(test["results"][0]["failure"], Value::Null, "{test}");
        assert_eq!(test["results"][0]["runs"], 1);
    }
}

#[test]
fn threads_are_compared_by_time_and_memory() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("threads.svg");
    let arguments = ["compare", "--rounds", "2", "--allocators", "glibc", "-n", "20k"];
    let mut command = bench(&arguments);
    let results = json(command.args(["-t", "1,3"]).arg("--svg").arg(&picture));
    assert_eq!(results["workload"], "alloc-compare");
    assert_eq!(results["threads"], serde_json::json!([1, 3]));
    let tests = results["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 2);
    for (test, threads) in tests.iter().zip([1, 3]) {
        assert_eq!(test["threads"], threads);
        let cell = &test["results"][0];
        assert_eq!(cell["runs"], 2, "{cell}");
        assert!(cell["wall_seconds"].as_f64().unwrap() > 0.0);
        // Besides the objects, the process itself is resident. No run may see another one's memory.
        assert!(cell["rss_per_requested"].as_f64().unwrap() > 0.5, "{cell}");
    }
    let text = fs::read_to_string(picture).unwrap();
    assert!(text.contains("Time in seconds") && text.contains("RSS / requested"));
    assert!(text.contains(">glibc</text>"));

    bench(&arguments).args(["-t", "3"]).assert().success().stdout(
        contains("Time in seconds")
            .and(predicates::str::is_match(r"(?m)^ +3 +\d+\.\d{3}$").unwrap())
            .and(predicates::str::is_match(r"(?m)^ +3 +\d+\.\d\d$").unwrap()),
    );
}
