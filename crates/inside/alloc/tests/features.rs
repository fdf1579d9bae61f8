//! The allocator without its features.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::path::Path;
use std::process::Command;

#[test]
fn a_request_for_what_was_left_out_is_reported() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("features");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "--quiet", "-p", "numapilot-alloc", "--example", "global"]);
    build.args(["--no-default-features", "--target-dir"]).arg(&target);
    assert!(build.status().unwrap().success());
    let profile = target.join("profile");
    let requests = [
        ("NUMAPILOT_ALLOC_HARDEN", "1", "harden"),
        ("NUMAPILOT_ALLOC_STATS", "text", "statistics"),
        ("NUMAPILOT_ALLOC_STATS_SIGNAL", "10", "statistics"),
        ("NUMAPILOT_ALLOC_PROFILE", profile.to_str().unwrap(), "profile"),
    ];
    let mut program = Command::new(target.join("debug/examples/global"));
    program.envs(requests.iter().map(|(name, value, _)| (name, value)));
    let output = program.output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "[50100, 50100, 50100, 50100]\n");
    let expected = requests.map(|(name, value, feature)| {
        format!(
            "numapilot: {name}={value} is ignored: the program contains numapilot-alloc without \
             the feature {feature}"
        )
    });
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().collect::<Vec<_>>(), expected);
    assert!(!profile.exists());
}
