//! Tests of `numapilot doctor`: every user gets the same checks, with different states.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

fn doctor(arguments: &[&str]) -> Output {
    Command::new(NUMAPILOT).arg("doctor").args(arguments).output().unwrap()
}

/// Copies the binary in a separate process. A child that another test forks meanwhile would inherit
/// the open descriptor, and a file that is open for writing cannot be executed.
fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(NUMAPILOT).arg(to).status().unwrap().success());
}

/// Checks by name.
fn checks(output: &Output) -> BTreeMap<String, Value> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().map(|c| (c["name"].as_str().unwrap().to_owned(), c.clone())).collect()
}

fn is_root() -> bool {
    // The `Uid` line of /proc/self/status: real, effective, saved, file system.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    uid.split_whitespace().nth(1) == Some("0")
}

/// Capabilities that are checked on every machine.
const NAMES: [(&str, &str); 30] = [
    ("/dev/shm", "machine"),
    ("AutoNUMA", "pages"),
    ("CAP_PERFMON", "rights"),
    ("CAP_SYS_ADMIN", "rights"),
    ("CAP_SYS_NICE", "rights"),
    ("CAP_SYS_PTRACE", "rights"),
    ("NUMA nodes", "machine"),
    ("numapilot-lab", "emulation"),
    ("cgroup", "cores"),
    ("cpuset", "machine"),
    ("hardware counters", "counters"),
    ("huge page pools", "pages"),
    ("huge pages per program", "placement"),
    ("kernel", "machine"),
    ("kernel counters", "counters"),
    ("machine-wide counting", "counters"),
    ("mbind", "placement"),
    ("memory access samples", "counters"),
    ("memory tiers", "machine"),
    ("move shared pages", "placement"),
    ("move_pages", "placement"),
    ("perf_event_paranoid", "counters"),
    ("ptrace_scope", "rights"),
    ("sched_setaffinity", "placement"),
    ("seccomp", "placement"),
    ("settings journal", "rights"),
    ("set_mempolicy", "placement"),
    ("swap", "machine"),
    ("thread placement library", "libraries"),
    ("transparent huge pages", "pages"),
];

#[test]
fn every_check_is_there_and_complete() {
    let checks = checks(&doctor(&["--json"]));
    for (name, group) in NAMES {
        assert_eq!(checks[name]["group"], group, "{name}");
    }
    for (name, check) in &checks {
        let fields: Vec<&String> = check.as_object().unwrap().keys().collect();
        assert_eq!(
            fields,
            ["cause", "essential", "found", "group", "name", "remedy", "state"],
            "{name}"
        );
        assert_ne!(check["found"], "", "{name}");
        // A capability that does not work has a cause and a remedy; one that works has neither.
        let works = check["state"] == "works";
        assert_eq!(check["cause"].is_null(), works, "{check}");
        assert_eq!(check["remedy"].is_null(), works, "{check}");
    }
}

#[test]
fn the_table_has_a_row_for_every_check_and_counts_them() {
    let checks = checks(&doctor(&["--json"]));
    let output = doctor(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.stderr.is_empty());
    assert!(!text.contains('\u{1b}'), "no colours into a pipe");
    for (name, check) in &checks {
        let state = check["state"].as_str().unwrap();
        let row = format!("  {state:7}  {name}");
        assert!(text.lines().any(|line| line.starts_with(&row)), "{row}\n{text}");
    }
    let count = |state: &str| checks.values().filter(|check| check["state"] == state).count();
    let summary = format!(
        "{} work, {} limited, {} missing",
        count("works"),
        count("limited"),
        count("missing")
    );
    assert!(text.contains(&summary), "{summary}\n{text}");
}

#[test]
fn the_status_says_whether_something_essential_is_missing() {
    let output = doctor(&["--json"]);
    let missing = checks(&output)
        .values()
        .any(|check| check["essential"] == true && check["state"] == "missing");
    assert_eq!(output.status.code(), Some(i32::from(missing)));

    // A copy of the binary without its library.
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("numapilot");
    copy_program(&alone);
    let output = Command::new(&alone)
        .args(["doctor", "--json"])
        .env("NUMAPILOT_LIB_DIR", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(checks(&output)["thread placement library"]["state"], "missing");
}

#[test]
fn a_closed_pipe_is_success() {
    let mut child =
        Command::new(NUMAPILOT).args(["doctor", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_unprivileged_user_learns_what_root_could_do() {
    if !is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    // In /tmp, because other users may have no access to the build directory.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = dir.path().join("numapilot");
    copy_program(&binary);
    for entry in fs::read_dir(Path::new(NUMAPILOT).parent().unwrap()).unwrap() {
        let library = entry.unwrap();
        let name = library.file_name().into_string().unwrap();
        if name.starts_with("libnumapilot_") && name.ends_with(".so") {
            fs::copy(library.path(), dir.path().join(name)).unwrap();
        }
    }
    let Ok(output) = as_nobody(&binary) else {
        println!("skipped: setpriv (util-linux) is not installed");
        return;
    };
    let nobody = checks(&output);
    for capability in ["CAP_SYS_NICE", "CAP_SYS_ADMIN", "CAP_PERFMON", "CAP_SYS_PTRACE"] {
        assert_eq!(nobody[capability]["state"], "missing", "{capability}");
    }
    assert_eq!(nobody["move shared pages"]["state"], "limited");
    assert_eq!(nobody["set_mempolicy"]["state"], "works");
    let remedy = nobody["AutoNUMA"]["remedy"].as_str().unwrap();
    assert!(remedy.contains("sudo sysctl kernel.numa_balancing="), "{remedy}");
    let root = checks(&doctor(&["--json"]));
    let names = |checks: &BTreeMap<String, Value>| checks.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&nobody), names(&root));
}

fn as_nobody(binary: &Path) -> std::io::Result<Output> {
    Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(binary)
        .args(["doctor", "--json"])
        .output()
}
