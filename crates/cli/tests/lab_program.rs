//! Tests of `numapilot lab`, `bench` and `study`, which are found in another program and executed.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use numapilot_test_kit::make_executable;
use programs::{NUMAPILOT, err};

/// Puts `numapilot` into a directory, with a script as numapilot-lab if one is given.
fn numapilot_in(directory: &Path, script: Option<(&str, &str)>) -> PathBuf {
    let program = directory.join("bin/numapilot");
    fs::create_dir(directory.join("bin")).unwrap();
    // Copied by another process: a file that this one has open for writing cannot be executed.
    assert!(Command::new("cp").arg(NUMAPILOT).arg(&program).status().unwrap().success());
    if let Some((place, text)) = script {
        let file = directory.join(place).join("numapilot-lab");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        make_executable(&file, &mut format!("#!/bin/sh\n{text}\n").as_bytes());
    }
    program
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).env("PATH", "/usr/bin:/bin").output().unwrap()
}

#[test]
fn it_is_executed_with_all_arguments_wherever_it_lies() {
    for place in ["bin", "lib/numapilot"] {
        let directory = tempfile::tempdir().unwrap();
        let script = (place, "echo \"$@\"; exit 3");
        let program = numapilot_in(directory.path(), Some(script));
        for arguments in [
            &["bench", "w1", "--json", "--", "x"][..],
            &["--color", "never", "lab", "run", "-m", "x"],
            &["--color=always", "study", "--help"],
            &["help", "bench"],
        ] {
            let output = run(&program, arguments);
            assert_eq!(output.status.code(), Some(3), "{place}: {arguments:?}: {}", err(&output));
            let printed = String::from_utf8(output.stdout).unwrap();
            assert_eq!(printed.trim_end(), arguments.join(" "), "{place}");
        }
        // The other verbs belong to numapilot itself.
        assert_eq!(run(&program, &["help", "run"]).status.code(), Some(0), "{place}");
    }
}

#[test]
fn its_absence_is_named_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let program = numapilot_in(directory.path(), None);
    for verb in ["lab", "bench", "study"] {
        let output = run(&program, &[verb]);
        assert_eq!(output.status.code(), Some(125), "{verb}");
        assert_eq!(
            err(&output),
            "numapilot: error: numapilot-lab is not installed; it holds lab, bench and study: \
             install the package numapilot-lab, or build it with `make build`\n"
        );
    }
}
