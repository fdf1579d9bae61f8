//! What is refused before the first run.

use std::fs;

use assert_cmd::Command;

use super::{error, folder, tune};

#[test]
fn what_is_measured_is_checked_before_the_first_run() {
    let folder = folder(&[]);
    let refused = |more: &[&str], status| {
        let mut command = Command::cargo_bin("numapilot").unwrap();
        command.current_dir(folder.path()).args(["tune", "--state", "state"]).args(more);
        error(command, status)
    };
    let touch = ["--", "touch", "ran"];
    let metric = |regex| refused(&[&["--metric", regex][..], &touch].concat(), 125);
    assert!(metric("tps").contains("no group"));
    assert!(metric("tps = ([0-9]*)").contains("empty"));
    assert!(refused(&[&["--limit", "rss=8"][..], &touch].concat(), 125).contains("unit"));
    let stdin = |path| refused(&[&["--stdin", path][..], &touch].concat(), 125);
    assert!(stdin(".").contains("--stdin .: it is a directory"));
    assert!(stdin("missing").contains("--stdin missing: the file cannot be opened: No such file"));
    assert!(!folder.path().join("ran").exists());
    assert!(refused(&["--", "seq 3 | wc"], 127).contains("sh -c 'seq 3 | wc'"));
    // Runs of 0.1 s: not even one plan can be compared in 0.3 s.
    let short = refused(&["--max-time", "300ms", "--", "sleep", "0.1"], 125);
    assert!(short.contains("--max-time is too short"), "{short}");
    // The time is too short even for one run.
    let short = refused(&["--max-time", "50ms", "--", "sleep", "0.2"], 125);
    assert!(short.contains("--max-time 0.05s is over before the first run"), "{short}");
    let endless = refused(&["--max-time", "200ms", "--", "sleep", "600"], 125);
    assert!(endless.contains("before the first run of the program has ended"), "{endless}");
    assert!(short.contains("takes 12 runs"), "{short}");
}

#[test]
fn what_cannot_end_well_is_refused_before_the_first_run() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    let refused = |more: &[&str]| error(tune(folder.path(), &["fast"], more), 125);
    assert!(refused(&["--max-runs", "3"]).contains("2 plans need at least 13 runs"));
    assert!(refused(&["--output", "fast"]).contains("--force"));
    assert!(
        refused(&["--output", "no/such/folder/x"]).contains("(--output FILE): cannot write no/")
    );
    assert!(refused(&["--svg", "state-is-fine/x.svg"]).contains("cannot write"));
    assert!(refused(&["--plan", "missing"]).contains("missing"));
    assert!(refused(&["--factor", "pages=huge"]).contains("numa-balancing"));
    assert!(refused(&["--resume"]).contains("nothing to resume"));
    assert!(!folder.path().join("state").exists());
    assert!(refused(&["--timeout", "soon"]).contains("duration"));
    // At most an empty journal from the refused resumption.
    let journal = folder.path().join("state/trials.jsonl");
    assert_eq!(fs::metadata(journal).map_or(0, |m| m.len()), 0);
}

#[test]
fn a_program_that_is_not_there_has_its_status() {
    let folder = folder(&[]);
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder.path()).args(["tune", "--state", "state", "--", "./missing"]);
    assert!(error(command, 127).contains("./missing"));
}
