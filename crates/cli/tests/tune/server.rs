//! `tune --server`, with servers that are shell scripts. A server writes the figure that follows
//! from its plan into the file `figure`, and the load prints it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use numapilot_sys::process::PidFd;
use numapilot_test_kit::{make_executable, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::failures::compiled;
use crate::processes::is_alive;
use crate::{error, json};

/// Serves until it is told to end.
const SERVES: &str = "trap 'rm -f figure; exit 0' TERM; sleep 600 & echo $$ > pid; \
                      echo ${FIGURE:-100} > figure.new; mv figure.new figure; wait";
/// Succeeds when that server is ready.
const READY: &str = "test -e figure";
/// Prints the figure, with more digits if the plan reaches the load as well.
const LOAD: &str = "echo figure=$(cat figure)${FIGURE:+000}";

/// A folder with a server and profiles that set one variable each.
pub fn folder(server: &str, profiles: &[(&str, &str, &str)]) -> TempDir {
    let folder = crate::folder(profiles);
    let script = format!("#!/bin/sh\n{server}\n");
    make_executable(&folder.path().join("server"), &mut script.as_bytes());
    folder
}

/// `tune` of the server in the folder, with few runs, against the profiles there.
pub fn words(profiles: &[&str], options: &[&str]) -> Vec<String> {
    let mut words = vec!["tune", "--state", "state", "--warmup", "0", "--noise-runs", "3"];
    for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
        words.extend(["--factor", factor]);
    }
    words.extend(["--factor", "numa-balancing=inherit"]);
    profiles.iter().for_each(|profile| words.extend(["--plan", profile]));
    let defaults = [
        ("--server", "./server"),
        ("--ready", READY),
        ("--load", LOAD),
        ("--metric", "figure=([0-9]+)"),
    ];
    for (option, value) in defaults {
        if !options.contains(&option) {
            words.extend([option, value]);
        }
    }
    words.extend(options);
    words.into_iter().map(str::to_owned).collect()
}

pub fn tune(folder: &Path, profiles: &[&str], options: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder).args(words(profiles, options));
    command
}

pub fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// Checks that the last server of the folder has ended.
pub fn assert_ended(folder: &Path) {
    let pid = read(folder, "pid");
    assert!(!pid.is_empty() && !is_alive(&pid), "server {pid} lives on");
}

#[test]
fn the_plan_applies_to_the_server_alone_and_its_profile_is_written() {
    let folder = folder(SERVES, &[("fast", "FIGURE", "80"), ("slow", "FIGURE", "130")]);
    let path = folder.path();
    let report = json(tune(path, &["fast", "slow"], &["--json", "--svg", "x.svg"]));
    assert_eq!(report["best"]["plan"], "FIGURE=80", "{report}");
    assert_eq!(report["default"]["median"], 100.0);
    assert!((report["best"]["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{report}");
    assert_eq!(report["values"], Value::Null);
    assert!(read(path, "x.svg").contains("FIGURE=80"));
    assert_ended(path);

    let profile = read(path, "numapilot.toml");
    for part in ["# Server: ./server\n", &format!("# Load: {LOAD}\n"), "# Result: 20.0 % less"] {
        assert!(profile.contains(part), "{part} is not in\n{profile}");
    }
    let mut run = Command::cargo_bin("numapilot").unwrap();
    run.current_dir(path).args(["run", "--profile", "numapilot.toml", "--"]);
    run.args(["sh", "-c", "echo $FIGURE"]).assert().success().stdout("80\n");
}

#[test]
fn people_see_what_is_measured_and_how_the_profile_is_used() {
    let folder = folder(SERVES, &[("fast", "FIGURE", "80")]);
    let output = tune(folder.path(), &["fast"], &[]).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr));
    let use_it = "Use it: numapilot run --profile numapilot.toml -- ./server\n";
    assert!(out.ends_with(use_it), "{out}");
    let err = err.unwrap();
    assert!(
        err.contains("every run starts the server under its plan, waits until --ready"),
        "{err}"
    );
}

/// Values of progress lines: the warm-up of two of them does not count.
const PROGRESS: &str = "for value in 10 55 101 99 100 101 99 100 101 99 100 100; do \
                        echo progress figure=$value; done";

#[test]
fn of_progress_lines_the_steady_part_counts() {
    let folder = folder(SERVES, &[]);
    let report = json(tune(folder.path(), &[], &["--load", PROGRESS, "--json"]));
    assert_eq!(report["default"]["median"], 100.0, "{report}");
    let values = &report["values"];
    assert_eq!(values["found"], serde_json::json!([12, 12]), "{report}");
    assert_eq!(values["dropped"], serde_json::json!([2, 2]), "{report}");
    let output = tune(folder.path(), &[], &["--load", PROGRESS]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = "each figure is the mean of 12 values of the load, less 2 dropped as warm-up";
    assert!(text.contains(line), "{text}");
}

#[test]
fn values_that_do_not_settle_are_named() {
    let folder = folder(SERVES, &[]);
    let load = "for value in 10 20 30 40 50 60 70 80 90 100 110 120; do echo figure=$value; done";
    let output = tune(folder.path(), &[], &["--load", load]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not steady: in 3 of 3 runs"), "{text}");
}

#[test]
fn a_server_that_dies_shows_its_last_words() {
    let folder = folder("echo starting; echo 'bind: Address already in use' >&2; exit 3", &[]);
    let text = error(tune(folder.path(), &[], &[]), 125);
    for part in [
        "the server ended before it was ready: exit status 3",
        "another process uses its port",
        "bind: Address already in use",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // Repeating it would be of no use.
    assert!(!read(folder.path(), "state/trials.jsonl").contains("\"trial\""));
}

#[test]
fn a_server_that_may_not_run_as_root_gets_the_remedy() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let folder = folder("echo 'root execution of this server is not permitted'; exit 1", &[]);
    let text = error(tune(folder.path(), &[], &[]), 125);
    assert!(text.contains("put setpriv --reuid=USER"), "{text}");
}

#[test]
fn a_server_that_does_not_get_ready_shows_its_last_words() {
    let folder = folder("echo $$ > pid; echo recovering; sleep 600", &[]);
    let more = ["--ready-timeout", "500ms", "--ready", "echo no response; exit 2"];
    let text = error(tune(folder.path(), &[], &more), 125);
    for part in ["was not ready within 0.5 s", "exit status 2: no response", "recovering"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_ended(folder.path());
    // A command that does not end is ended.
    let more = ["--ready-timeout", "500ms", "--ready", "test -e pid || exit 1; sleep 600"];
    fs::remove_file(folder.path().join("pid")).unwrap();
    let text = error(tune(folder.path(), &[], &more), 125);
    assert!(text.contains("was not ready within 0.5 s"), "{text}");
}

#[test]
fn a_server_that_daemonises_gets_the_remedy() {
    let daemon = "echo $$ > pid; : > figure; exec sleep 600 </dev/null >/dev/null 2>&1";
    let until = "until test -s pid; do sleep 0.01; done";
    let folder = folder(&format!("setsid sh -c '{daemon}' & {until}; exit 0"), &[]);
    let text = error(tune(folder.path(), &[], &["--ready", "test -e never"]), 125);
    assert!(text.contains("gone on in the background"), "{text}");
    assert!(text.contains("the option that keeps it in the foreground"), "{text}");
    assert_ended(folder.path());
}

#[test]
fn a_ready_command_that_cannot_tell_is_refused_before_the_first_run() {
    let folder = folder(&format!("touch ran; {SERVES}"), &[]);
    let text = error(tune(folder.path(), &[], &["--ready", "true"]), 125);
    assert!(text.contains("--ready 'true' succeeds although the server is not started"), "{text}");
    let text = error(tune(folder.path(), &[], &["--ready", "no-such-command"]), 125);
    assert!(text.contains("cannot be run: exit status 127"), "{text}");
    assert!(!folder.path().join("ran").exists());
}

/// The load would measure it.
#[test]
fn another_server_that_appears_later_is_noticed() {
    let leaves_it = "rm -f figure; (sleep 0.05; echo 1 > figure) & wait";
    let folder = folder(SERVES, &[("p", "FIGURE", "90")]);
    let text = error(tune(folder.path(), &["p"], &["--cleanup", leaves_it]), 125);
    assert!(text.contains("succeeds although the server is not started"), "{text}");
    assert_ended(folder.path());
}

/// The server does not listen, and another process begins to while the server starts.
#[test]
fn another_server_that_answers_is_noticed() {
    let folder = folder("echo $$ > pid; exec sleep 600", &[]);
    let path = folder.path();
    let text = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the server does not run", || !read(path, "pid").is_empty());
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            fs::write(path.join("answers"), "").unwrap();
            wait_until("the server runs", || !is_alive(&read(path, "pid")));
            drop(listener);
        });
        let more = ["--ready", "test -e answers", "--ready-timeout", "1s"];
        error(tune(path, &[], &more), 125)
    });
    assert!(text.contains("another server answered"), "{text}");
    assert_ended(path);
}

#[test]
fn a_load_that_always_fails_ends_the_search() {
    let folder = folder(SERVES, &[]);
    let text = error(tune(folder.path(), &[], &["--load", "echo refused; exit 4"]), 125);
    assert!(text.contains("the load failed: exit status 4"), "{text}");
    assert!(text.contains("3 of 3, the last one") && text.contains("refused"), "{text}");
    let text = error(tune(folder.path(), &[], &["--load", "echo done"]), 125);
    assert!(text.contains("no output matches --metric"), "{text}");
    assert_ended(folder.path());
}

#[test]
fn a_load_that_fails_once_is_a_failed_run() {
    let folder = folder(SERVES, &[("fast", "FIGURE", "80")]);
    let load = format!("test -e failed || {{ touch failed; echo broken; exit 4; }}; {LOAD}");
    let report = json(tune(folder.path(), &["fast"], &["--load", &load, "--json"]));
    assert_eq!(report["best"]["plan"], "FIGURE=80", "{report}");
    let plans = report["plans"].as_array().unwrap();
    let default = plans.iter().find(|plan| plan["status"] == "default").unwrap();
    assert_eq!(default["failed"], 1, "{report}");
    let failure = &default["failures"][0];
    assert_eq!(failure["reason"], "the load failed: exit status 4");
    assert_eq!(failure["output"], "broken");
}

#[test]
fn a_load_that_takes_too_long_is_ended() {
    let folder = folder(SERVES, &[]);
    let more = ["--load", "echo $$ > load; exec sleep 600", "--timeout", "200ms"];
    let text = error(tune(folder.path(), &[], &more), 125);
    assert!(text.contains("timeout"), "{text}");
    assert!(!is_alive(&read(folder.path(), "load")));
    assert_ended(folder.path());
}

#[test]
fn a_server_that_dies_under_load_is_the_reason() {
    let folder = folder(SERVES, &[]);
    let load = "kill -SEGV $(cat pid); exec sleep 600";
    let text = error(tune(folder.path(), &[], &["--load", load]), 125);
    let part = "the server ended while the load ran: killed by signal 11";
    assert!(text.contains(part), "{text}");
}

#[test]
fn a_plan_that_the_server_does_not_survive_is_left_out() {
    let server = format!("test -z \"$BROKEN\" || {{ echo no memory; exit 9; }}; {SERVES}");
    let folder = folder(&server, &[("broken", "BROKEN", "1"), ("fast", "FIGURE", "80")]);
    let report = json(tune(folder.path(), &["broken", "fast"], &["--json"]));
    assert_eq!(report["best"]["plan"], "FIGURE=80", "{report}");
    let plans = report["plans"].as_array().unwrap();
    let broken = plans.iter().find(|plan| plan["plan"] == "BROKEN=1").unwrap();
    assert_eq!(broken["status"], "failed");
    assert_eq!(broken["reason"], "the server ended before it was ready: exit status 9");
    assert_eq!(broken["failures"][0]["output"], "no memory");
}

#[test]
fn a_server_that_does_not_stop_is_killed_and_named() {
    let server = "trap '' TERM; echo $$ > pid; echo 1 > figure; while :; do sleep 1; done";
    let folder = folder(server, &[]);
    let more = ["--stop-timeout", "200ms", "--setup", "rm -f figure"];
    let output = tune(folder.path(), &[], &more).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("it left server running, which was ended"), "{text}");
    assert_ended(folder.path());
}

#[test]
fn what_a_server_leaves_is_ended_and_named() {
    let left = "setsid env -i sleep 600 </dev/null >/dev/null 2>&1 & echo $! >> left";
    let folder = folder(&format!("{left}; {SERVES}"), &[]);
    let report = json(tune(folder.path(), &[], &["--json"]));
    assert_eq!(report["left_running"], serde_json::json!(["sleep"]), "{report}");
    let left = read(folder.path(), "left");
    assert_eq!(left.lines().count(), 3);
    assert!(!left.lines().any(is_alive), "{left}");
}

#[test]
fn shared_memory_that_a_server_leaves_is_removed_and_named() {
    let folder = folder("", &[]);
    let source = "#include <stdio.h>\n#include <sys/shm.h>\n#include <unistd.h>\n\
                  int main(void) { int id = shmget(IPC_PRIVATE, 1 << 20, 0600);\n\
                  if (id < 0) return 9;\n\
                  FILE *file = fopen(\"figure\", \"w\"); fprintf(file, \"%d\", id + 1);\n\
                  fclose(file); pause(); }";
    let Some(_) = compiled(folder.path(), "server", source, &[]) else { return };
    let more =
        ["--setup", "rm -f figure", "--load", "cat figure >> ids; echo >> ids; echo figure=1"];
    let output = tune(folder.path(), &[], &more).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    if text.contains("exit status 9") {
        println!("skipped: no System V shared memory here");
        return;
    }
    assert!(output.status.success(), "{text}");
    assert!(text.contains("it left System V shared memory"), "{text}");
    assert!(text.contains("(1.0 MiB), which was removed"), "{text}");
    let listed = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let ids = read(folder.path(), "ids");
    assert_eq!(ids.lines().count(), 3);
    for id in ids.lines().map(|line| line.parse::<i32>().unwrap() - 1) {
        let is_there = |line: &str| line.split_whitespace().nth(1) == Some(&id.to_string());
        assert!(!listed.lines().any(is_there), "segment {id} is there: {listed}");
    }
}

#[test]
fn the_server_is_set_up_and_cleaned_up_around_every_run() {
    let folder = folder(&format!("echo server >> log; {SERVES}"), &[]);
    let more =
        ["--setup", "echo setup >> log", "--cleanup", "test ! -e figure; echo cleanup >> log"];
    tune(folder.path(), &[], &more).assert().success();
    assert_eq!(read(folder.path(), "log"), "setup\nserver\ncleanup\n".repeat(3));
    let text = error(tune(folder.path(), &[], &["--cleanup", "echo stuck; exit 5"]), 125);
    assert!(text.contains("--cleanup 'echo stuck; exit 5' ended with exit status: 5"), "{text}");
}

#[test]
fn the_load_reads_the_standard_input() {
    let folder = folder(SERVES, &[]);
    let mut command =
        tune(folder.path(), &[], &["--load", "read figure; echo figure=$figure", "--json"]);
    command.write_stdin("42\n");
    assert_eq!(json(command)["default"]["median"], 42.0);
}

#[test]
fn the_load_and_the_server_have_cpus_of_their_own() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: needs two CPUs");
        return;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = |text: &str| {
        text.lines().find_map(|l| Some(l.strip_prefix("Cpus_allowed_list:")?.trim().to_owned()))
    };
    let own = list(&status).unwrap();
    let first = own.split(['-', ',']).next().unwrap();
    let cpus = |file: &str| format!("grep Cpus_allowed_list /proc/self/status > {file}");
    let folder = folder(&format!("{}; {SERVES}", cpus("of-server")), &[]);
    let load = format!("{}; {LOAD}", cpus("of-load"));
    let more = ["--load", &load, "--load-cpus", first];
    let output = tune(folder.path(), &[], &more).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let of = |file| list(&read(folder.path(), file)).unwrap();
    assert_eq!(of("of-load"), first);
    assert!(of("of-server").split(['-', ',']).all(|cpu| cpu != first), "{}", of("of-server"));
    assert!(text.contains(&format!("the load on CPUs {first}")), "{text}");
    let refused = error(tune(folder.path(), &[], &["--load-cpus", "all"]), 125);
    assert!(refused.contains("leaves no CPU to the server"), "{refused}");
}

#[test]
fn a_search_goes_on_with_the_same_server_and_load_only() {
    let folder = folder(SERVES, &[("fast", "FIGURE", "80")]);
    let search = |more: &[&str]| tune(folder.path(), &["fast"], more);
    let whole = json(search(&["--json"]));
    let journal = folder.path().join("state/trials.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&journal, lines[..6].join("\n") + "\n" + &lines[6][..10]).unwrap();
    let resumed = json(search(&["--json", "--resume"]));
    for key in ["best", "plans", "runs", "stop"] {
        assert_eq!(resumed[key], whole[key], "{key}");
    }
    for (option, value, key) in [
        ("--load", "echo figure=1", "its load was"),
        ("--ready", "test -s figure", "its ready command was"),
        ("--server", "./server --more", "its command was"),
        ("--cleanup", "true", "its cleanup was"),
    ] {
        let text = error(search(&["--resume", option, value]), 125);
        assert!(text.contains(key), "{option}: {text}");
    }
}

#[test]
fn commands_that_mean_nothing_are_refused_before_the_first_run() {
    let folder = folder("touch ran", &[]);
    let refused = |words: &[&str], status| {
        let mut command = Command::cargo_bin("numapilot").unwrap();
        command.current_dir(folder.path()).args(["tune", "--state", "state"]).args(words);
        error(command, status)
    };
    assert!(refused(&["--server", "./server"], 125).contains("--ready <SHELL>"));
    let load_alone = refused(&["--load", "true", "--", "./server"], 125);
    assert!(load_alone.contains("--server <COMMAND>"), "{load_alone}");
    let whole = ["--server", "./server", "--ready", READY, "--load", LOAD];
    let both = refused(&[&whole[..], &["--", "./server"]].concat(), 125);
    assert!(both.contains("cannot be used with"), "{both}");
    // The emulated machine has 8 of the 32 CPUs of its description.
    let on = |cpus| {
        let lab = ["--lab", "threadripper-1950x", "--load-cpus", cpus];
        refused(&[&whole[..], &lab].concat(), 125)
    };
    assert!(on("0-7").contains("leaves no CPU to the server"), "{}", on("0-7"));
    assert!(on("8").contains("which has CPUs 0-7"), "{}", on("8"));
    let attest = refused(&[&whole[..], &["--attest", "here"]].concat(), 125);
    assert!(attest.contains("cannot be used with"), "{attest}");
    let with =
        |server: &str, status| refused(&[&["--server", server], &whole[2..]].concat(), status);
    assert!(with("./server 'x", 125).contains("a quote is not closed"));
    assert!(with("./missing --port 80", 127).contains("./missing"));
    assert!(with("cd /srv && ./server", 127).contains("sh -c 'cd /srv && ./server'"));
    assert!(with("PORT=80 ./server", 127).contains("env PORT=80 ./server"));
    assert!(!folder.path().join("ran").exists());
}

/// The cleanup of an interrupted search, unless another one is given.
const CLEANUP: [&str; 2] = ["--cleanup", "echo once >> cleaned"];

/// Interrupts a search as soon as the file `reached` is there. Returns what it has printed.
fn interrupted(folder: &Path, options: &[&str]) -> (String, String) {
    let count = if options.contains(&CLEANUP[0]) { 0 } else { CLEANUP.len() };
    let mut child = Process::new(assert_cmd::cargo::cargo_bin("numapilot"))
        .current_dir(folder)
        .args(words(&[], &[options, &CLEANUP[..count]].concat()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let stderr = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    wait_until("the stage is reached", || folder.join("reached").exists());
    let search = PidFd::open(child.id().cast_signed()).unwrap();
    search.signal(libc::SIGINT).unwrap();
    assert!(search.ended_within(Some(Duration::from_secs(60))).unwrap(), "it goes on");
    let output = child.wait_with_output().unwrap();
    let stderr = stderr.join().unwrap().join("\n");
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(folder.join("cleaned").exists(), "{stderr}");
    (String::from_utf8(output.stdout).unwrap(), stderr)
}

#[test]
fn an_interruption_at_any_stage_stops_everything_in_order() {
    let reached = "echo $$ > other; touch reached; sleep 600";
    let stages: [(&str, &[&str]); 3] = [
        ("the set-up", &["--setup", reached]),
        (
            "getting ready",
            &["--ready", "test -e figure || exit 1; echo $$ > other; touch reached; sleep 600"],
        ),
        ("the load", &["--load", reached]),
    ];
    for (stage, options) in stages {
        let folder = folder(SERVES, &[]);
        interrupted(folder.path(), options);
        assert!(!is_alive(&read(folder.path(), "other")), "{stage}: it lives on");
        if stage != "the set-up" {
            assert_ended(folder.path());
            // It has had the time to remove its file.
            assert!(!folder.path().join("figure").exists(), "{stage}: it was killed");
        }
    }
    // During the set-up of a server that keeps running, and during a cleanup, which is not repeated.
    let folder_of = |options: &[&str]| {
        let folder = folder(SERVES, &[]);
        interrupted(folder.path(), options);
        folder
    };
    let never = folder_of(&["--restart", "never", "--setup", reached]);
    assert_eq!(read(never.path(), "cleaned"), "once\n");
    let slow = "echo once >> cleaned; touch reached; sleep 0.5";
    let cleaned = folder_of(&["--setup", "echo set up >> log", "--cleanup", slow]);
    assert_eq!(read(cleaned.path(), "log"), "set up\n");
    assert_eq!(read(cleaned.path(), "cleaned"), "once\n");
    // While the server stops.
    let slow = "trap 'touch reached; sleep 1; rm figure; exit 0' TERM; \
                sleep 600 & echo $$ > pid; : > figure; wait";
    let folder = folder(slow, &[]);
    interrupted(folder.path(), &["--load", "echo figure=1"]);
    assert_ended(folder.path());
    assert!(!folder.path().join("figure").exists(), "it was killed");
}

#[test]
fn what_was_measured_before_an_interruption_is_kept() {
    let folder = folder(SERVES, &[]);
    let load = "if test -e second; then touch reached; sleep 600; fi; touch second; echo figure=7";
    let (out, err) = interrupted(folder.path(), &["--load", load]);
    assert!(out.contains("interrupted; --resume continues the search"), "{out} {err}");
    let trials = read(folder.path(), "state/trials.jsonl");
    assert_eq!(trials.matches("{\"trial\"").count(), 1, "{trials}");
    // The load must stay the same.
    fs::remove_file(folder.path().join("second")).unwrap();
    let more = ["--load", load, "--cleanup", "touch cleaned; rm -f second", "--resume", "--json"];
    let text = error(tune(folder.path(), &[], &more), 125);
    assert!(text.contains("its cleanup was"), "{text}");
    let more = [&["--load", load][..], &CLEANUP, &["--resume", "--json"]].concat();
    let mut command = tune(folder.path(), &[], &more);
    command.args(["--timeout", "1s"]);
    let text = error(command, 125);
    assert!(text.contains("timeout"), "{text}");
}
