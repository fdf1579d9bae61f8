//! Tests of the effects of a plan that are seen in the running program.

use std::process::Command;

use crate::{NUMAPILOT, err, run};

#[test]
fn what_a_plan_did_is_seen_in_the_running_program() {
    let output = run(&["-v", "-l", "-C", "+0", "--thp", "never", "sleep", "0.3"]);
    let stderr = err(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    for line in ["memory local: in effect (local)", ": in effect (all 1 threads)"] {
        assert!(stderr.contains(line), "{line}: {stderr}");
    }
    assert!(stderr.contains("thp never: in effect (THP_enabled: 0)"), "{stderr}");
    assert!(!stderr.contains("warning"), "{stderr}");
}

#[test]
fn a_setting_that_the_program_undoes_fails_under_strict() {
    let undone = ["-i", "all", "--", NUMAPILOT, "run", "-l", "sleep", "0.3"];
    let strict = run(&[&["--strict"], &undone[..]].concat());
    let stderr = err(&strict);
    assert_eq!(strict.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("memory interleave"), "{stderr}");
    assert!(stderr.contains("not in effect: sleep has the policy local"), "{stderr}");
    let plain = run(&[&["-v"], &undone[..]].concat());
    assert_eq!(plain.status.code(), Some(0));
    assert!(err(&plain).contains("sleep has the policy local"), "{}", err(&plain));
    // A program that ends before it is observed may have had all effects.
    let short = run(&["--strict", "-i", "all", "true"]);
    assert_eq!(short.status.code(), Some(0), "{}", err(&short));
}

#[test]
fn the_proc_of_another_pid_namespace_is_noticed() {
    let inside = |arguments: &[&str]| {
        Command::new("unshare").args(["-pf", NUMAPILOT]).args(arguments).output()
    };
    let allowed = Command::new("unshare").args(["-pf", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: no PID namespace can be made here");
        return;
    }
    for verb in [
        &["stat", "-p", "1"][..],
        &["stat", "true"],
        &["top", "-p", "1", "--once"],
        &["balance", "-p", "1"],
        &["cores", "-p", "1"],
    ] {
        let output = inside(verb).unwrap();
        assert_eq!(output.status.code(), Some(125), "{verb:?}: {}", err(&output));
        assert!(err(&output).contains("another PID namespace"), "{verb:?}: {}", err(&output));
    }
    let output = inside(&["run", "-v", "-l", "echo", "ran"]).unwrap();
    assert_eq!(output.stdout, b"ran\n");
    assert!(err(&output).contains("another PID namespace"), "{}", err(&output));
}

/// Wrappers with their own allocator do this.
#[test]
fn a_malloc_that_a_wrapper_preloads_before_ours_is_seen() {
    let mimalloc = format!("/usr/lib/{}-linux-gnu/libmimalloc.so.2", std::env::consts::ARCH);
    if !std::path::Path::new(&mimalloc).exists() {
        println!("skipped: mimalloc is not installed");
        return;
    }
    let script = format!("LD_PRELOAD={mimalloc}:$LD_PRELOAD exec sleep 0.5");
    let output = run(&["--strict", "--allocator", "numapilot", "--", "sh", "-c", &script]);
    let stderr = err(&output);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("names mimalloc first, so that one is used"), "{stderr}");
}
