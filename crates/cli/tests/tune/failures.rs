//! Plans and defaults that fail.

use std::fs;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use assert_cmd::Command;

use super::{error, folder, json, tune};

#[test]
fn plans_that_break_the_program_are_left_out() {
    let folder =
        folder(&[("wrong", "ANSWER", "2"), ("crash", "STATUS", "9"), ("fast", "FIGURE", "90")]);
    let profiles = ["wrong", "crash", "fast"];
    let report = json(tune(folder.path(), &profiles, &["--json", "--check", "answer=(.*)"]));
    assert_eq!(report["best"]["plan"], "FIGURE=90");
    let reason = |plan: &str| {
        let plans = report["plans"].as_array().unwrap();
        let found = plans.iter().find(|p| p["plan"] == plan).unwrap();
        assert_eq!(found["status"], "failed");
        found["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason("ANSWER=2"), "wrong answer: \"2\" instead of \"1\"");
    assert_eq!(reason("STATUS=9"), "exit status 9");
}

#[test]
fn a_default_that_fails_is_fatal_and_shows_its_output() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    let mut command = tune(folder.path(), &["fast"], &[]);
    command.env("STATUS", "7").env("FIGURE", "42");
    let text = error(command, 125);
    assert!(text.contains("exit status 7"), "{text}");
    // Two runs after which the search continued, and the error.
    let last = text.lines().filter(|line| line.contains("figure=42")).count();
    assert_eq!(last, 3, "{text}");
    assert!(text.contains("The end of its output:\n  answer=1\n  figure=42"), "{text}");
    let mut command = tune(folder.path(), &["fast"], &[]);
    command.env("FIGURE", "none");
    let text = error(command, 125);
    assert!(text.contains("--metric") && !text.contains("1 of 1 failed"), "{text}");
}

/// Fails in every seventh run, under every plan.
const FAILS_AT_TIMES: &str = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; \
    if [ $((n % 7)) = 3 ]; then echo broken; exit 3; fi; echo figure=${FIGURE:-100}";

fn tune_at_times(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder).args(["tune", "--state", "state", "--plan", "fast"]);
    for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
        command.args(["--factor", factor]);
    }
    command.args(["--factor", "numa-balancing=inherit"]).args(more);
    command.args(["--metric", "figure=([0-9]+)", "--", "sh", "-c", FAILS_AT_TIMES]);
    command
}

#[test]
fn a_chance_failure_decides_nothing_and_is_counted() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    let report = json(tune_at_times(folder.path(), &["--json"]));
    assert_eq!(report["best"]["plan"], "FIGURE=80");
    let plans = report["plans"].as_array().unwrap();
    let failed: u64 = plans.iter().map(|plan| plan["failed"].as_u64().unwrap()).sum();
    assert!(failed > 0, "{report}");
    let runs = plans.iter().flat_map(|plan| plan["failures"].as_array().unwrap());
    for run in runs.clone() {
        assert_eq!((&run["reason"], &run["output"]), (&"exit status 3".into(), &"broken".into()));
    }
    assert_eq!(runs.count() as u64, failed);

    let _ = fs::remove_file(folder.path().join("n"));
    let output = tune_at_times(folder.path(), &["--force"]).output().unwrap();
    let (out, err) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(out.contains("failed: exit status 3"), "{out}");
    // The run is named, and its output shown.
    for part in ["run 4 (noise), default: exit status 3; 1 of 4 failed", "| broken"] {
        assert!(err.contains(part), "{part} is not in\n{err}");
    }

    // Without tolerance, the first failure of the default ends the search; with it, the search
    // continues.
    let _ = fs::remove_file(folder.path().join("n"));
    let more = ["--force", "--failure-tolerance", "0"];
    let text = error(tune_at_times(folder.path(), &more), 125);
    assert!(text.contains("fail without any plan: 1 of 4, "), "{text}");
    let resumed = json(tune_at_times(folder.path(), &["--force", "--resume", "--json"]));
    assert_eq!(resumed["best"]["plan"], "FIGURE=80");
}

/// Compiles a program. Without a C compiler, prints that the test is skipped.
pub fn compiled(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Option<String> {
    let file = folder.join("source.c");
    fs::write(&file, source).unwrap();
    let program = folder.join(name);
    let result = Process::new("cc").arg("-o").arg(&program).arg(&file).args(flags).output();
    if !result.is_ok_and(|output| output.status.success()) {
        println!("skipped: cc {flags:?} does not work here");
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}

/// Allocators that are not loaded into the program that does the work are not measured, and the
/// reason is given once.
#[test]
fn a_plan_without_effect_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let shared = ["-shared", "-fPIC"];
    let malloc = "void *__libc_malloc(unsigned long);\n\
                  void *malloc(unsigned long size) { return __libc_malloc(size); }";
    let Some(one) = compiled(path, "libone.so", malloc, &shared) else { return };
    let Some(two) = compiled(path, "libtwo.so", malloc, &shared) else { return };
    let work = "#include <time.h>\n#include <stdio.h>\n\
                int main(void) { while (clock() < CLOCKS_PER_SEC / 5); puts(\"figure=1\"); }";
    let Some(program) = compiled(path, "static", work, &["-static"]) else { return };
    let tuned = |command: &[&str]| {
        let allocators = format!("allocator={one},{two}");
        let mut tune = Process::new(env!("CARGO_BIN_EXE_numapilot"));
        tune.current_dir(path).args(["tune", "--state", "state", "--noise-runs", "3"]);
        tune.args(["--warmup", "0", "--max-runs", "30", "--factor", &allocators]);
        for factor in ["threads=none", "memory=inherit", "thp=inherit", "numa-balancing=inherit"] {
            tune.args(["--factor", factor]);
        }
        let output = tune.args(["--metric", "figure=([0-9]+)", "--"]).args(command);
        let output = output.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (out, _) = tuned(&["sh", "-c", &format!("{program}; true")]);
    let cause = "static does not load it: it is statically linked";
    assert_eq!(out.matches(cause).count(), 1, "{out}");
    assert!(out.contains("failed, 1 more plan alike: allocators are not in effect"), "{out}");
    // If it is started directly, its file shows that before anything runs.
    let (_, err) = tuned(&[&program]);
    assert_eq!(err.matches("it is statically linked").count(), 1, "{err}");
    assert!(err.contains("skipped: allocator: ") && !err.contains("strict"), "{err}");
}
