//! `tune --server --restart never`: the plan of a running server changes from run to run. The load
//! reads from /proc what applies to the server, and prints a figure for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use numapilot_sys::process::PidFd;
use numapilot_test_kit::wait_until;
use tempfile::TempDir;

use crate::failures::compiled;
use crate::server::{assert_ended, folder, read, tune, words};
use crate::{error, json};

/// Serves until it is told to end, and counts its starts.
const SERVES: &str = "trap 'echo end >> log; rm -f figure; exit 0' TERM; echo start >> log; \
                      sleep 600 & echo $$ > pid; : > figure; wait";
/// 80 for a server without huge pages, else 100.
const LOAD: &str = "echo load >> log; grep -q 'THP_enabled:.*0' /proc/$(cat pid)/status && \
                    echo figure=80 || echo figure=100";

/// A folder with a server and the profile `never` without huge pages.
fn folder_with(server: &str) -> TempDir {
    let folder = folder(server, &[]);
    fs::write(folder.path().join("never"), "thp = \"never\"\n").unwrap();
    folder
}

const NEVER: [&str; 2] = ["--restart", "never"];

/// `tune` of the server in the folder, which keeps running.
fn tune_running(folder: &Path, profiles: &[&str], more: &[&str]) -> Command {
    let mut options = vec!["--load", LOAD];
    options.retain(|_| !more.contains(&"--load"));
    tune(folder, profiles, &[&NEVER[..], &options, more].concat())
}

fn count(folder: &Path, line: &str) -> usize {
    read(folder, "log").lines().filter(|found| *found == line).count()
}

/// Whether plans of memory and huge pages can be compared here; else says so.
fn is_supported() -> bool {
    let is_supported = numapilot_sys::remote::IS_SUPPORTED;
    if !is_supported {
        println!("skipped: needs x86-64");
    }
    is_supported
}

#[test]
fn one_server_runs_under_every_plan() {
    if !is_supported() {
        return;
    }
    let folder = folder_with(SERVES);
    let path = folder.path();
    let beside = ["--setup", "echo setup >> log", "--cleanup", "echo cleanup >> log"];
    let report = json(tune_running(path, &["never"], &[&["--json"], &beside[..]].concat()));
    assert_eq!(report["best"]["plan"], "thp never", "{report}");
    assert_eq!(report["default"]["median"], 100.0, "{report}");
    assert!((report["best"]["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{report}");
    let runs = usize::try_from(report["runs"].as_u64().unwrap()).unwrap();
    assert!(runs > 5 && count(path, "load") == runs, "{}", read(path, "log"));
    let log = read(path, "log");
    assert!(log.starts_with("setup\nstart\nload\n"), "{log}");
    assert!(log.ends_with("load\nend\ncleanup\n"), "{log}");
    assert_eq!(["setup", "start", "end", "cleanup"].map(|line| count(path, line)), [1; 4]);
    assert_ended(path);
    assert!(read(path, "numapilot.toml").contains("thp = \"never\""));
}

#[test]
fn people_see_what_is_compared_and_why_the_rest_is_not() {
    let folder = folder_with(SERVES);
    let words = words(&["never"], &[&NEVER[..], &["--load", LOAD]].concat());
    let is_factor = |word: &String| word.starts_with("allocator=");
    let at = words.iter().position(is_factor).unwrap();
    let words = [&words[..at - 1], &words[at + 1..]].concat();
    let mut command = Command::cargo_bin("numapilot").unwrap();
    let output = command.current_dir(folder.path()).args(words).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("the server is started once, under no plan"), "{text}");
    let skipped = "skipped: allocator: a program gets it at its start; start the program again";
    assert!(text.contains(skipped), "{text}");
}

#[test]
fn the_threads_of_a_running_server_are_placed_and_released() {
    let folder = folder("", &[]);
    let path = folder.path();
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
                  static void *wait(void *none) { pause(); return none; }\n\
                  int main(void) { pthread_t one;\n\
                  for (int i = 0; i < 3; i++) pthread_create(&one, 0, wait, 0);\n\
                  FILE *file = fopen(\"pid\", \"w\"); fprintf(file, \"%d\", getpid());\n\
                  fclose(file); fclose(fopen(\"figure\", \"w\")); pause(); }";
    let Some(_) = compiled(path, "server", source, &["-pthread"]) else { return };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: needs two CPUs");
        return;
    }
    fs::write(path.join("sparse"), "threads = \"sparse\"\n").unwrap();
    // 80 if all four threads have a CPU of their own, 100 if none has.
    let load = "sleep 0.3; case $(grep -h Cpus_allowed_list /proc/$(cat pid)/task/*/status | \
                grep -c '[[:space:]][0-9]*$') in 4) echo figure=80;; 0) echo figure=100;; \
                *) exit 9;; esac";
    let more = ["--load", load, "--setup", "rm -f figure", "--json"];
    let report = json(tune_running(path, &["sparse"], &more));
    assert_eq!(report["best"]["plan"], "sparse", "{report}");
    assert_eq!(report["default"]["median"], 100.0, "{report}");
    assert!((report["best"]["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{report}");
}

#[test]
fn a_server_that_dies_is_started_again() {
    if !is_supported() {
        return;
    }
    let folder = folder_with(SERVES);
    let path = folder.path();
    let kill = "kill -SEGV $(cat pid); exec sleep 600";
    let load = format!("{LOAD}; test $(wc -l < log) != 5 || {{ {kill}; }}");
    // A server that dies leaves its file.
    let more = ["--load", &load, "--setup", "rm -f figure", "--json"];
    let report = json(tune_running(path, &["never"], &more));
    assert_eq!(report["best"]["plan"], "thp never", "{report}");
    assert_eq!(count(path, "start"), 2, "{}", read(path, "log"));
    let plans = report["plans"].as_array().unwrap();
    let failures = plans.iter().flat_map(|plan| plan["failures"].as_array().unwrap().clone());
    let reasons: Vec<String> = failures.map(|failure| failure["reason"].to_string()).collect();
    let reason = "\"the server ended while the load ran: killed by signal 11\"";
    assert_eq!(reasons, [reason], "{report}");
    // The load on the server that was started again, before its caches are warm, does not count.
    let runs = usize::try_from(report["runs"].as_u64().unwrap()).unwrap();
    assert_eq!(count(path, "load"), runs + 1, "{}", read(path, "log"));
    assert_ended(path);
}

#[test]
fn a_server_that_never_starts_ends_the_search() {
    let folder = folder_with("echo 'bind: Address already in use' >&2; exit 3");
    let cleanup = ["--cleanup", "echo cleanup >> log"];
    let text = error(tune_running(folder.path(), &["never"], &cleanup), 125);
    assert!(text.contains("the server ended before it was ready: exit status 3"), "{text}");
    assert!(text.contains("another process uses its port"), "{text}");
    assert_eq!(count(folder.path(), "cleanup"), 1);
}

#[test]
fn an_interrupt_stops_the_server_in_order() {
    let folder = folder_with(SERVES);
    let path = folder.path();
    let load = "echo load >> log; exec sleep 600";
    let options = [&NEVER[..], &["--load", load, "--cleanup", "echo cleanup >> log"]].concat();
    let mut search = Process::new(assert_cmd::cargo::cargo_bin("numapilot"))
        .current_dir(path)
        .args(words(&["never"], &options))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the load does not run", || count(path, "load") == 1);
    std::thread::sleep(Duration::from_millis(50));
    PidFd::open(search.id().cast_signed()).unwrap().signal(libc::SIGINT).unwrap();
    let lines = BufReader::new(search.stderr.take().unwrap()).lines();
    let text: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(search.wait().unwrap().code(), Some(130), "{text:?}");
    assert!(read(path, "log").ends_with("load\nend\ncleanup\n"), "{}", read(path, "log"));
    assert_ended(path);
}

#[test]
fn a_trial_changes_a_running_server_too() {
    if !is_supported() {
        return;
    }
    let folder = folder_with(SERVES);
    let path = folder.path();
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(path).args(["tune", "trial", "--plan", "never", "--rounds", "2", "--json"]);
    command.args(["--server", "./server", "--ready", "test -e figure", "--load", LOAD]);
    command.args(["--metric", "figure=([0-9]+)", "--restart", "never"]);
    let outcome = json(command);
    assert!((outcome["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{outcome}");
    assert_eq!(["start", "end"].map(|line| count(path, line)), [1; 2]);
}

#[test]
fn what_a_running_server_cannot_get_is_refused() {
    let folder = folder("touch ran", &[("p", "FIGURE", "80")]);
    let text = error(tune_running(folder.path(), &["p"], &[]), 125);
    assert!(text.contains("a program gets it at its start"), "{text}");
    let text = error(tune_running(folder.path(), &[], &["--limit", "rss=1G"]), 125);
    assert!(text.contains("that of all plans"), "{text}");
    let text = error(tune_running(folder.path(), &[], &["--lab", "machine-a"]), 125);
    assert!(text.contains("cannot be used with"), "{text}");
    assert!(!folder.path().join("ran").exists());
}
