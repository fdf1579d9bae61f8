//! Tests of `numapilot advise` as a user runs it.
#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod programs;

use std::fs;
use std::process::{Command as Process, Output, Stdio};

use programs::{NUMAPILOT, compiled, err};
use serde_json::Value;

fn advise(arguments: &[&str]) -> Output {
    Process::new(NUMAPILOT).arg("advise").args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// The object of a command, and the output of the program before it.
fn json(command: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("advice.json");
    let output = advise(&[&["--json", "-o", file.to_str().unwrap(), "--"], command].concat());
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

fn factor<'a>(advice: &'a Value, name: &str) -> &'a Value {
    let factors = advice["factors"].as_array().unwrap();
    factors.iter().find(|factor| factor["factor"] == name).unwrap()
}

/// The samples of the code, or `None` with a message where they are not permitted.
fn code(advice: &Value) -> Option<&Value> {
    let code = Some(&advice["code"]).filter(|code| !code.is_null());
    if code.is_none() {
        println!("skipped: {}", advice["unsupported"]["code"]);
    }
    code
}

fn nodes() -> usize {
    numapilot_topology::read("/".as_ref()).unwrap().memory_nodes().len()
}

#[test]
fn every_factor_has_a_verdict_with_its_source_and_bounds_are_shares() {
    let advice = json(&["sleep", "0.05"]);
    let factors = advice["factors"].as_array().unwrap();
    let names: Vec<&str> = factors.iter().map(|f| f["factor"].as_str().unwrap()).collect();
    assert_eq!(names, ["allocator", "threads", "memory", "thp", "numa-balancing", "cores"]);
    for factor in factors {
        let verdict = factor["verdict"].as_str().unwrap();
        assert!(["can-matter", "cannot-matter", "unknown", "not-varied"].contains(&verdict));
        assert!(factor["source"].as_str().unwrap().len() > 5, "{factor}");
        assert!(factor["because"].as_str().unwrap().len() > 5, "{factor}");
        if let Some(share) = factor["bound"]["cpu_share"].as_f64() {
            assert!((0.0..=1.0).contains(&share), "{factor}");
        }
    }
    assert!(advice["seconds"].as_f64().unwrap() >= 0.05);
    assert_eq!(advice["exit_status"], 0);
    assert_eq!(advice["command"], serde_json::json!(["sleep", "0.05"]));
}

#[test]
fn what_was_not_sampled_is_unknown() {
    let advice = json(&["true"]);
    // A program of less than a sample's CPU time may still get one.
    if advice["code"]["samples"].as_u64().unwrap_or(0) > 0 {
        println!("skipped: a sample of true(1) was taken");
        return;
    }
    let allocator = factor(&advice, "allocator");
    if allocator["verdict"] == "not-varied" {
        println!("skipped: {}", allocator["because"]);
        return;
    }
    assert_eq!(allocator["verdict"], "unknown", "{allocator}");
    assert!(allocator["bound"].is_null() && allocator["first"].is_null());
    assert!(allocator["because"].as_str().unwrap().starts_with("time in malloc is unknown: "));
}

#[test]
fn on_one_node_placement_certainly_cannot_matter() {
    if nodes() > 1 {
        println!("skipped: this machine has several nodes");
        return;
    }
    let advice = json(&["true"]);
    for name in ["threads", "memory", "numa-balancing"] {
        let factor = factor(&advice, name);
        assert_eq!(factor["verdict"], "cannot-matter", "{name}");
        assert_eq!(factor["bound"]["cpu_share"], 0.0, "{name}");
        assert_eq!(factor["bound"]["is_certain"], true, "{name}");
    }
}

#[test]
fn time_in_malloc_is_seen_and_bounds_what_an_allocator_can_save() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("allocating.c", directory.path()) else { return };
    let program = program.to_str().unwrap();
    let advice = json(&[program, "malloc", "3"]);
    let Some(code) = code(&advice) else { return };
    let (all, allocator) =
        (code["samples"].as_u64().unwrap(), code["allocator_samples"].as_u64().unwrap());
    assert!(allocator * 10 > all * 6, "{allocator} of {all} samples are in malloc");
    assert_eq!((&code["threads"], &code["allocating_threads"]), (&3.into(), &3.into()), "{code}");
    let found = factor(&advice, "allocator");
    if found["verdict"] != "not-varied" {
        assert_eq!(found["verdict"], "can-matter");
        assert!(!found["first"].is_null(), "{found}");
        assert!(found["bound"]["cpu_share"].as_f64().unwrap() > 0.6, "{found}");
        assert!(advice["options"][0].as_str().unwrap().starts_with("--allocator="), "{advice}");
    }

    let advice = json(&[program, "compute", "3"]);
    let code = &advice["code"];
    let (all, allocator) =
        (code["samples"].as_u64().unwrap(), code["allocator_samples"].as_u64().unwrap());
    assert!(allocator * 10 < all, "{allocator} of {all} samples are in malloc");
    assert!(factor(&advice, "allocator")["first"].is_null());
}

#[test]
fn the_childs_status_and_output_are_its_own_and_lines_fit_a_terminal() {
    let output = advise(&["--", "sh", "-c", "echo mine; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"mine\n");
    let text = err(&output);
    assert!(text.contains("Advice for 'sh -c echo mine; exit 7'"), "{text}");
    assert!(text.contains("status 7: the advice is about a run that failed"), "{text}");
    assert!(text.contains("To be sure: numapilot tune -- sh -c 'echo mine; exit 7'"), "{text}");
    let is_command =
        |line: &&str| line.starts_with(" Try first:") || line.starts_with(" To be sure:");
    let long = text.lines().filter(|line| !line.starts_with("numapilot:") && !is_command(line));
    assert_eq!(long.filter(|line| line.chars().count() > 80).count(), 0, "{text}");
    assert_eq!(advise(&["--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
}

#[test]
fn what_cannot_be_observed_is_named() {
    let output = advise(&["--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{}", err(&output));
    let output = advise(&["-p", "2147483647"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(err(&output).contains("process 2147483647 cannot be inspected"), "{}", err(&output));
    assert_eq!(advise(&["-p", "1", "--", "true"]).status.code(), Some(125));
}

#[test]
fn a_file_keeps_its_contents_until_there_is_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("advice.json");
    fs::write(&path, "earlier").unwrap();
    let file = path.to_str().unwrap();
    for verb in ["advise", "stat"] {
        for command in [&["--", "/nonexistent/program"][..], &["-p", "999999999"]] {
            let mut numapilot = assert_cmd::Command::cargo_bin("numapilot").unwrap();
            numapilot.args([&[verb, "-o", file][..], command].concat()).assert().failure();
            assert_eq!(fs::read_to_string(&path).unwrap(), "earlier", "{verb} {command:?}");
        }
    }
    assert!(advise(&["--json", "-o", file, "--", "true"]).status.success());
    let text = fs::read_to_string(&path).unwrap();
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
}

/// An allocator would have no effect there.
#[test]
fn the_malloc_of_a_static_program_behind_a_script_is_not_varied() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("busy.c");
    let text = "#include <stdlib.h>\n#include <time.h>\n\
                int main(void) { while (clock() < CLOCKS_PER_SEC)\n\
                for (int i = 0; i < 1000; i++) { void *volatile p = malloc(i); free(p); } }";
    fs::write(&source, text).unwrap();
    let program = folder.path().join("busy");
    let compiled = std::process::Command::new("cc")
        .args(["-O1", "-static", "-o"])
        .args([&program, &source])
        .status()
        .is_ok_and(|status| status.success());
    if !compiled {
        println!("skipped: no C compiler, or no static C library");
        return;
    }
    let script = format!("{}; true", program.display());
    let advice = json(&["sh", "-c", &script]);
    if code(&advice).is_none() {
        return;
    }
    let allocator = factor(&advice, "allocator");
    assert_eq!(allocator["verdict"], "not-varied", "{allocator}");
    let because = allocator["because"].as_str().unwrap();
    assert!(because.contains("busy, which used the most CPU time"), "{because}");
}

#[test]
fn a_running_process_is_observed_until_the_limit() {
    let mut busy = Process::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id().to_string();
    let output = advise(&["--json", "--timeout", "1s", "-p", &pid]);
    let runs_on = busy.try_wait().unwrap().is_none();
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(output.status.success() && runs_on, "{}", err(&output));
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(advice["pid"].to_string(), pid);
    assert!(advice["exit_status"].is_null());
    let Some(code) = code(&advice) else { return };
    assert!(code["samples"].as_u64().unwrap() > 0, "{advice}");
    assert_eq!(code["threads"], 1);
    assert_eq!(advice["malloc"], "glibc");
}
