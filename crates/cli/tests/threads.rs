//! Tests of `run --threads`: placement from inside, from outside, and of whole process trees.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Programs whose exit status tells whether their threads run where they should; shared with the
/// library's own tests.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../inside/bind/preload/tests/cases.c");

/// `numapilot` with the library beside it. No package can depend on a library that is only
/// preloaded, so it is built here.
fn numapilot() -> Command {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--offline", "-p", "numapilot-bind-preload"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "the library does not build");
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_numapilot"));
    // Variables that the user who runs the tests may have set.
    for name in ["OMP_PLACES", "OMP_PROC_BIND", "GOMAXPROCS", "NUMAPILOT_LIB_DIR", "LD_PRELOAD"] {
        command.env_remove(name);
    }
    command
}

/// Builds the cases as a dynamic and as a static program.
fn cases(options: &[&str]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("cases");
    let status = Command::new("cc")
        .args(options)
        .args(["-O1", "-Wall", "-pthread", "-o"])
        .arg(&program)
        .arg(CASES)
        .status()
        .unwrap();
    assert!(status.success());
    (directory, program)
}

/// Whether CPUs 0 and 1, which the cases need, are usable.
fn two_cpus() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let usable = list.starts_with("0-") || list.starts_with("0,1");
    if !usable {
        println!("skipped: CPUs 0 and 1 are not both usable here (only {list})");
    }
    usable
}

fn run(command: &[&str]) -> Output {
    run_with(&[], command)
}

fn run_with(options: &[&str], command: &[&str]) -> Output {
    numapilot()
        .args(["run", "--threads", "dense", "-C", "0,1"])
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .unwrap()
}

/// Checks the status, and that standard error has this text.
#[track_caller]
fn ends(output: &Output, status: i32, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr: String = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.contains(text), "{stderr}");
}

#[track_caller]
fn holds(output: &Output) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{out}\n{err}", output.status);
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_dynamic_program_is_placed_from_inside() {
    if !two_cpus() {
        return;
    }
    let (_directory, program) = cases(&[]);
    for case in ["main-and-first-thread", "detached", "asks-for-any", "forks", "execs"] {
        let output = run(&[text(&program), case]);
        holds(&output);
    }
    let output = run(&[text(&program), "main-and-first-thread"]);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_program_that_pins_itself_is_named() {
    if !two_cpus() {
        return;
    }
    let (_directory, program) = cases(&[]);
    let output = run(&[text(&program), "pins-itself"]);
    holds(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("set the affinity of 7 of its threads itself"), "{stderr}");
}

#[test]
fn a_static_program_is_placed_from_outside() {
    if !two_cpus() {
        return;
    }
    let (_directory, program) = cases(&["-static"]);
    let output = run(&[text(&program), "watched"]);
    holds(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("it is statically linked, so they are placed from outside"),
        "{stderr}"
    );
    // The same below a shell in which the library places threads.
    let line = format!("{} watched; exit $?", program.display());
    let named = "placed from outside, a few ms after they started: 4 threads of cases (it is \
                 statically linked)";
    ends(&run(&["sh", "-c", &line]), 0, named);
    ends(&run_with(&["--strict"], &["sh", "-c", &line]), 125, named);
}

#[test]
fn a_program_that_a_placed_one_starts_without_the_library_counts_all_cpus() {
    if !two_cpus() {
        return;
    }
    let (_directory, program) = cases(&["-static"]);
    // A kernel call at its start, as OpenMP runtimes make it.
    let static_one = format!("{} only-cpu", program.display());
    for command in [&*static_one, "env -i nproc"] {
        let output = run(&["sh", "-c", &format!("{command}; {command}; true")]);
        holds(&output);
        let expected = if command == static_one { "-1\n-1\n" } else { "2\n2\n" };
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{command}");
        // It has no second thread, so nothing was placed from outside.
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_static_program_that_pins_itself_is_left_alone() {
    if !two_cpus() {
        return;
    }
    let (_directory, program) = cases(&["-static"]);
    let output = run(&[text(&program), "watched-and-pins-itself"]);
    holds(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("set the affinity of 1 of its threads itself"), "{stderr}");
}

#[test]
fn what_a_dynamic_tool_pins_stays_pinned_in_a_static_program() {
    if !two_cpus() {
        return;
    }
    let (_directory, program) = cases(&["-static"]);
    let line = format!("{} stays-on-1; exit $?", program.display());
    holds(&run(&["taskset", "-c", "1", "sh", "-c", &line]));
    holds(&run(&["taskset", "-c", "1", text(&program), "stays-on-1"]));
}

#[test]
fn a_program_without_our_environment_is_placed_from_outside() {
    if !two_cpus() {
        return;
    }
    let (_directory, program) = cases(&[]);
    let command = ["env", "-i", text(&program), "watched"];
    let named = "4 threads of cases (its environment does not name libnumapilot_bind.so)";
    ends(&run(&command), 0, named);
    ends(&run_with(&["--strict"], &command), 125, named);
}

#[test]
fn threads_that_share_the_cpu_of_taskset_are_not_in_effect() {
    if !two_cpus() {
        return;
    }
    let (_directory, program) = cases(&[]);
    let command = ["taskset", "-c", "1", text(&program), "stays-on-1"];
    let cause = "threads: not in effect: cases restricts all its 2 threads to CPUs 1 itself";
    ends(&run_with(&["--strict"], &command), 125, cause);
    ends(&run_with(&["--verbose"], &command), 0, cause);
}

#[test]
fn the_status_of_the_program_is_passed_on() {
    let output = run(&["sh", "-c", "exit 42"]);
    assert_eq!(output.status.code(), Some(42));
}

#[test]
fn numapilot_itself_sees_all_cpus_of_the_run() {
    if !two_cpus() {
        return;
    }
    let inner = env!("CARGO_BIN_EXE_numapilot");
    let output = run(&[inner, "topo", "--json"]);
    holds(&output);
    let machine: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(machine["allowed"]["cpus"], serde_json::json!([0, 1]), "{machine}");
    // A placement inside another one has the same CPUs.
    let output = run(&[inner, "run", "--threads", "sparse", "--", "nproc"]);
    holds(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "2");
}
