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
use serde_json::Value;
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

/// A server that does what its argument says, and then waits in all of its threads and processes.
const ODD: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>
static const char *what;
static int is(const char *name) { return strcmp(what, name) == 0; }
static void *thread(void *none) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (is("pinned")) sched_setaffinity(0, sizeof one, &one);
    if (is("waits")) {
        struct epoll_event event;
        int events = epoll_create1(0);
        if (epoll_wait(events, &event, 1, -1) < 0) creat("interrupted", 0600);
    }
    if (none && is("shrinks")) {
        while (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0) usleep(1000);
        usleep(50000);
        return none;
    }
    for (;;) pause();
    return none;
}
int main(int count, char **words) {
    pthread_t one;
    what = words[count - 1];
    if (is("thp")) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (is("forks") || is("stopped"))
        for (int i = 0; i < 2; i++) if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (is("stopped")) raise(SIGSTOP);
            for (;;) pause();
        }
    if (is("threads") || is("pinned") || is("waits") || is("first") || is("shrinks"))
        for (int i = 0; i < 3; i++) pthread_create(&one, 0, thread, i == 0 ? &one : 0);
    FILE *file = fopen("pid", "w");
    fprintf(file, "%d", getpid());
    fclose(file);
    fclose(fopen("figure", "w"));
    if (is("first") || is("shrinks")) pthread_exit(0);
    for (;;) pause();
}
"#;

/// Runs `tune trial` of the odd server. The load adds a line to the log of the states of all
/// threads: lines of their status that match `seen`. Returns the outcome and the log, of which the
/// lines of the default are the first, fourth and fifth.
fn trial_of(what: &str, plan: &str, seen: &str) -> Option<(Value, Vec<String>)> {
    let folder = folder("", &[]);
    let path = folder.path();
    compiled(path, "server", ODD, &["-pthread"])?;
    fs::write(path.join("plan"), plan).unwrap();
    let tasks = "pid=$(cat pid); for process in $pid $(cat /proc/$pid/task/*/children); do \
                 for task in /proc/$process/task/*; do";
    let load = format!(
        "sleep 0.5; {tasks} sed -n 's/^{seen}:[[:space:]]*//p' $task/status; done; done | sort | \
         tr '\\n' ' ' >> log; echo >> log; echo figure=100"
    );
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(path).args(["tune", "trial", "--plan", "plan", "--rounds", "3", "--json"]);
    command.args(["--server", &format!("./server {what}"), "--ready", "test -e figure"]);
    command.args(["--load", &load, "--metric", "figure=([0-9]+)", "--setup", "rm -f figure"]);
    command.args(["--warmup", "0", "--restart", "never"]).timeout(Duration::from_secs(60));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let outcome = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8(output.stderr).unwrap()));
    assert!(!path.join("interrupted").exists());
    Some((outcome, read(path, "log").lines().map(|line| line.trim().to_owned()).collect()))
}

/// The lines of the default, and those of the plan.
fn split(log: &[String]) -> ([&str; 3], [&str; 3]) {
    assert_eq!(log.len(), 6, "{log:?}");
    let of = |lines: [usize; 3]| lines.map(|line| log[line].as_str());
    (of([0, 3, 4]), of([1, 2, 5]))
}

const CPUS: &str = "Cpus_allowed_list";
const THP: &str = "THP_enabled";
const SPARSE: &str = "threads = \"sparse\"\n";
const WITHOUT_THP: &str = "thp = \"never\"\n";

/// The CPUs on which this process may run, if there are two or more.
fn two_cpus() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let list = list.trim().to_owned();
    if list.contains(['-', ',']) {
        return Some(list);
    }
    println!("skipped: needs two CPUs");
    None
}

/// Whether all of these are single CPUs.
fn are_placed(cpus: &str) -> bool {
    cpus.split(' ').all(|cpus| cpus.parse::<u32>().is_ok())
}

#[test]
fn the_threads_of_a_running_server_are_placed_and_released() {
    let Some(all) = two_cpus() else { return };
    let Some((outcome, log)) = trial_of("threads", SPARSE, CPUS) else { return };
    let (default, plan) = split(&log);
    assert_eq!(outcome["ratio"], 1.0, "{outcome}");
    let free = [&*all; 4].join(" ");
    assert_eq!(default, [&*free; 3], "{log:?}");
    assert!(plan.iter().all(|cpus| are_placed(cpus)), "{log:?}");
}

#[test]
fn processes_that_a_server_forks_are_placed_like_threads() {
    let Some(all) = two_cpus() else { return };
    let Some((_, log)) = trial_of("forks", SPARSE, CPUS) else { return };
    let (default, plan) = split(&log);
    let free = [&*all; 3].join(" ");
    assert_eq!(default, [&*free; 3], "{log:?}");
    let placed = |cpus: &str| cpus.split(' ').filter(|cpus| cpus.parse::<u32>().is_ok()).count();
    assert_eq!(plan.map(placed), [2; 3], "{log:?}");
}

/// Whether `cores` runs for the server.
const DAEMON: &str = "pid=$(cat pid); sleep 1; grep -qz \"^$pid\\$\" $(grep -lzx cores \
                      /proc/[0-9]*/cmdline 2> /dev/null) && echo figure=80 || echo figure=100";

#[test]
fn a_daemon_runs_beside_a_running_server_during_its_plan() {
    let folder = folder("echo $$ > pid; : > figure; exec sleep 600", &[]);
    let path = folder.path();
    fs::write(path.join("cores"), "daemons = \"cores\"\n").unwrap();
    let report = json(tune_running(path, &["cores"], &["--load", DAEMON, "--json"]));
    assert_eq!(report["best"]["plan"], "cores", "{report}");
    assert_eq!(report["default"]["median"], 100.0, "{report}");
    assert!((report["best"]["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{report}");
    assert!(read(path, "numapilot.toml").contains("daemons = \"cores\""));
}

#[test]
fn what_the_server_has_set_itself_is_left_alone() {
    let Some(all) = two_cpus() else { return };
    let pinned = format!("0 0 0 {all}");
    for plan in [SPARSE, "cpus = \"0\"\n", "cpus = \"1\"\n"] {
        let Some((_, log)) = trial_of("pinned", plan, CPUS) else { return };
        assert_eq!(split(&log).0, [&*pinned; 3], "{log:?}");
    }
    if is_supported() {
        let Some((outcome, log)) = trial_of("thp", WITHOUT_THP, THP) else { return };
        assert_eq!(log, ["0"; 6]);
        let reason = outcome["reason"].as_str().unwrap();
        assert!(reason.contains("the program has set its switch of huge pages itself"), "{reason}");
    }
}

#[test]
fn threads_of_every_kind_go_on_after_a_change() {
    if !is_supported() {
        return;
    }
    for (what, threads) in [("waits", 4), ("first", 3), ("stopped", 3)] {
        let Some((outcome, log)) = trial_of(what, WITHOUT_THP, THP) else { return };
        assert_eq!(outcome["ratio"], 1.0, "{what}: {outcome}");
        let (default, plan) = split(&log);
        let all = |value| [value; 4][..threads].join(" ");
        assert_eq!(default.map(str::to_owned), [all("1"), all("1"), all("1")], "{what}");
        assert_eq!(plan.map(str::to_owned), [all("0"), all("0"), all("0")], "{what}");
    }
    // The thread through which the switch was changed ends, and the others have it as well.
    let Some((outcome, log)) = trial_of("shrinks", WITHOUT_THP, THP) else { return };
    assert_eq!(outcome["ratio"], 1.0, "{outcome}");
    assert_eq!(split(&log), (["1 1 1", "1 1", "1 1"], ["0 0"; 3]), "{log:?}");
    let Some((_, log)) = trial_of("stopped", WITHOUT_THP, "State") else { return };
    assert!(log.iter().all(|line| line.matches("T (stopped)").count() == 2), "{log:?}");
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
