//! Programs that another launcher starts: `--via`, with launchers that start them on this machine.

use std::fs;
use std::path::Path;

use numapilot_test_kit::make_executable;
use serde_json::Value;

use crate::{err, failure, folder, numapilot, out, success};

/// A launcher that clears everything that a parent passes on but the path.
const LAUNCHER: &str = "#!/bin/sh\nexec env -i PATH=\"$PATH\" HOME=\"$HOME\" \"$@\"\n";

fn launcher(folder: &Path, name: &str, script: &str) {
    make_executable(&folder.join(name), &mut script.as_bytes());
}

#[test]
fn the_plan_reaches_the_far_side_and_is_attested() {
    let folder = folder("thp = \"never\"\n[env]\nVALUE = \"a 'b' $c\"\n");
    launcher(folder.path(), "srun", LAUNCHER);
    let show = "grep THP_enabled /proc/self/status; echo \"$VALUE\"; sleep 0.6";
    for template in ["./srun {}", "./srun sh -c 'true; {}'"] {
        let output = numapilot(
            folder.path(),
            &[
                "run",
                "-v",
                "--strict",
                "--profile=p.toml",
                "--via",
                template,
                "--",
                "sh",
                "-c",
                show,
            ],
        );
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(out(&output), "THP_enabled:\t0\na 'b' $c\n");
        assert!(
            err(&output).contains(": thp never: in effect (THP_enabled: 0"),
            "{}",
            err(&output)
        );
    }
    let left = fs::read_dir(folder.path()).unwrap();
    let left =
        left.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains("numapilot-"));
    assert_eq!(left.count(), 0);
    // What is in the caller's directory is kept, in one for each run.
    let given = ["run", "--profile=p.toml", "--attest=a", "--via=./srun {}", "true"];
    success(folder.path(), &given);
    success(folder.path(), &given);
    assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 2);
    for run in fs::read_dir(folder.path().join("a")).unwrap() {
        let mut files = fs::read_dir(run.unwrap().path()).unwrap();
        let text = fs::read(files.next().unwrap().unwrap().path()).unwrap();
        assert!(files.next().is_none());
        let attestation: Value = serde_json::from_slice(&text).unwrap();
        assert!(attestation["plan"].as_str().unwrap().starts_with("thp never"), "{attestation}");
        assert!(attestation["settings"].is_array(), "{attestation}");
    }
}

#[test]
fn a_missing_attestation_is_reported() {
    let folder = folder("thp = \"never\"\n");
    let run = |more: &[&str]| numapilot(folder.path(), &[&["run", "--thp=never"], more].concat());
    let output = run(&["--via", "true {}", "--", "app"]);
    assert!(output.status.success() && err(&output).contains("no attestation"), "{}", err(&output));
    let output = run(&["--strict", "--via", "true {}", "--", "app"]);
    assert_eq!(output.status.code(), Some(125));
    // The status of the program passes through the launcher.
    let output = run(&["--via", "env {}", "--", "sh", "-c", "exit 3"]);
    assert_eq!((output.status.code(), err(&output)), (Some(3), String::new()));
    // The far end says why it cannot run the program, and nothing is said twice.
    for strict in [&["--strict"][..], &[]] {
        let output = run(&[strict, &["--via", "env {}", "--", "nosuch"]].concat());
        assert_eq!(output.status.code(), Some(127), "{}", err(&output));
        assert_eq!(err(&output).matches("nosuch").count(), 1, "{}", err(&output));
    }
    let error = failure(folder.path(), &["run", "--attest=p.toml/a", "--via=env {}", "true"]);
    assert!(
        error.contains("/p.toml/a/attest-")
            && error.contains("Not a directory")
            && error.contains("give --attest DIR"),
        "{error}"
    );
    for (template, part) in
        [("srun", "has no {}"), ("a {} {}", "more than once"), ("'{}", "no end")]
    {
        let error = failure(folder.path(), &["run", "--via", template, "true"]);
        assert!(error.contains(part), "{error}");
    }
    let error = failure(folder.path(), &["run", "--attest=/nonexistent", "true"]);
    assert!(error.contains("/nonexistent") && error.contains("make the directory"), "{error}");
}

#[test]
fn text_of_the_far_side_stays_on_its_line() {
    let folder = folder("");
    // It attests in place of numapilot: the word behind --attest is the directory.
    let script = "#!/bin/sh\nwhile [ \"$1\" != --attest ]; do shift; done\n\
                  printf %s '{\"host\":\"a\\nb\\u001b\",\"process\":1,\"plan\":\"x\\ny\"}' >\"$2/attest-1-x.json\"\n";
    launcher(folder.path(), "forge", script);
    for verb in [&["run", "-v"][..], &["stat"]] {
        let output = numapilot(folder.path(), &[verb, &["--via=./forge {}", "true"]].concat());
        let text = err(&output);
        assert!(text.contains(r"a\x0ab\x1b, process 1: the plan was 'x\x0ay'"), "{text}");
    }
}

#[test]
fn a_setting_without_effect_is_attested_as_such() {
    let folder = folder("");
    fs::create_dir(folder.path().join("a")).unwrap();
    let undone = [
        "run",
        "--strict",
        "-i=all",
        "--attest=a",
        "--",
        env!("CARGO_BIN_EXE_numapilot"),
        "run",
        "-l",
        "sleep",
        "0.5",
    ];
    failure(folder.path(), &undone);
    let output = numapilot(folder.path(), &["stat", "--attest=a", "--via=env {}", "true"]);
    // The earlier attestation, of another plan, is not one of this run.
    assert!(!err(&output).contains("--via"), "{}", err(&output));
}

/// Prints a figure that follows from the plan's environment.
const PROGRAM: &str = "echo figure=${FIGURE:-100}";

fn tune<'a>(via: &'a str, state: &'a str) -> Vec<&'a str> {
    let mut words =
        vec!["tune", "--state", state, "--json", "--metric=figure=([0-9]+)", "--via", via];
    words.extend(["--factor=allocator=inherit", "--factor=threads=none", "--factor=thp=inherit"]);
    words.extend(["--factor=memory=inherit", "--factor=numa-balancing=inherit", "--plan=p.toml"]);
    words.extend(["--", "sh", "-c", PROGRAM]);
    words
}

#[test]
fn plans_are_measured_on_the_far_side() {
    let folder = folder("[env]\nFIGURE = \"80\"\n");
    launcher(folder.path(), "srun", LAUNCHER);
    let report: Value =
        serde_json::from_str(&success(folder.path(), &tune("./srun {}", "state"))).unwrap();
    assert_eq!(report["best"]["plan"], "FIGURE=80", "{report}");
    assert_eq!(report["default"]["median"], 100.0);
    assert_eq!(fs::read_dir(folder.path().join("state/attest")).unwrap().count(), 0);
}

#[test]
fn a_run_without_the_right_attestation_fails_with_the_reason() {
    let folder = folder("[env]\nFIGURE = \"80\"\n");
    // It keeps the plan away from the program.
    let script = "#!/bin/sh\nfor a do shift; case $a in --env=*) ;; *) set -- \"$@\" \"$a\";; esac; \
                  done\nexec \"$@\"\n";
    launcher(folder.path(), "srun", script);
    let report: Value =
        serde_json::from_str(&success(folder.path(), &tune("./srun {}", "state"))).unwrap();
    assert!(report["best"].is_null(), "{report}");
    let failed = report["plans"].as_array().unwrap();
    let failed = failed.iter().find(|plan| plan["plan"] == "FIGURE=80").unwrap();
    let reason = failed["reason"].as_str().unwrap();
    assert!(reason.contains("the plan was 'default', not 'FIGURE=80'"), "{reason}");
    // What is missing on the other side is attested as well.
    let gone = "sh -c 'PATH=/nonexistent; exec {}'";
    let error = failure(folder.path(), &tune(gone, "third"));
    assert!(error.contains("plan: not in effect: sh: not found"), "{error}");
    // Without any attestation, even the default has no figure.
    let silent = "sh -c 'echo figure=1; : {}'";
    let error = failure(folder.path(), &tune(silent, "other"));
    assert!(error.contains("no attestation"), "{error}");
}
