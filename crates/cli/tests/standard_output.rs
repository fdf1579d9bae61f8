//! Tests of standard output that cannot be written.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod programs;

use std::fs::File;
use std::process::{Command, Output, Stdio};

use programs::NUMAPILOT;

/// Runs numapilot with a full disk as its standard output.
fn on_a_full_disk(arguments: &[&str]) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    Command::new(NUMAPILOT).args(arguments).stdout(full).output().unwrap()
}

#[test]
fn what_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("p.toml");
    std::fs::write(&profile, "thp = \"never\"\n").unwrap();
    let profile = profile.to_str().unwrap();
    for arguments in [
        &["topo"][..],
        &["topo", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["completions", "bash"],
        &["man"],
        &["profile", "show", profile],
        &["profile", "export", profile, "--to", "shell"],
        &["run", "--dry-run", "true"],
        &["export-metrics", "--once", "-d", "50ms"],
        &["top", "--once", "-d", "50ms"],
        &["cores", "simulate", "--cpus", "2"],
        &["--help"],
        &["--version"],
        &["help"],
        &["topo", "--help"],
    ] {
        let output = on_a_full_disk(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {stderr}");
        assert!(
            stderr.ends_with(
                "numapilot: error: cannot write standard output: No space left on device (os error \
                 28); free space there, or choose another place\n"
            ),
            "{arguments:?}: {stderr}"
        );
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    for arguments in [&["--help"][..], &["completions", "bash"], &["topo", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(NUMAPILOT);
        let output = command.args(arguments).stdout(Stdio::from(writer)).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert_eq!(output.stderr, b"", "{arguments:?}");
    }
}
