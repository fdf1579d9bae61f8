//! Tests of `numapilot tune`, with programs whose figures do not depend on time: they print a
//! number that follows from the plan's environment.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod few_runs;
mod options;
mod server;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use numapilot_sys::process::PidFd;
use numapilot_test_kit::make_executable;
use serde_json::Value;
use tempfile::TempDir;

/// Prints the answer and a figure; crashes if told to.
const PROGRAM: &str = "echo answer=${ANSWER:-1}; echo figure=${FIGURE:-100}; exit ${STATUS:-0}";

/// A folder with profiles that set one variable each.
fn folder(profiles: &[(&str, &str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, variable, value) in profiles {
        let text = format!("[env]\n{variable} = \"{value}\"\n");
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// `tune` in the folder, comparing the default with the profiles there alone.
fn tune(folder: &Path, profiles: &[&str], more: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder).args(["tune", "--state", "state"]);
    for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
        command.args(["--factor", factor]);
    }
    command.args(["--factor", "numa-balancing=inherit"]);
    for profile in profiles {
        command.args(["--plan", profile]);
    }
    command.args(more).args(["--metric", "figure=([0-9]+)", "--", "sh", "-c", PROGRAM]);
    command
}

fn json(mut command: Command) -> Value {
    let output = command.assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

fn error(mut command: Command, status: i32) -> String {
    let output = command.assert().failure().code(status).get_output().stderr.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn every_run_gets_the_redirected_standard_input() {
    let folder = folder(&[]);
    let read = ["-c", "read figure; echo figure=$figure"];
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder.path()).args(["tune", "--factor", "allocator=inherit"]);
    for factor in ["threads=none", "memory=inherit", "thp=inherit", "numa-balancing=inherit"] {
        command.args(["--factor", factor]);
    }
    command.args(["--json", "--metric", "figure=([0-9]+)", "--", "sh"]).args(read);
    let output = command.write_stdin("42\n").assert().success().get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["default"]["median"], 42.0);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("every run gets the 3 B of this standard input"), "{stderr}");
}

#[test]
fn the_best_plan_is_named_and_kept_as_a_profile() {
    let folder = folder(&[("fast", "FIGURE", "80"), ("slow", "FIGURE", "130")]);
    let report = json(tune(folder.path(), &["fast", "slow"], &["--json", "--svg", "x.svg"]));
    assert_eq!(report["best"]["plan"], "FIGURE=80");
    assert_eq!(report["default"]["median"], 100.0);
    assert_eq!(report["noise"], 0.0);
    assert!((report["best"]["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    let statuses: Vec<&str> =
        report["plans"].as_array().unwrap().iter().map(|p| p["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["best", "default", "dropped"]);
    assert!(fs::read_to_string(folder.path().join("x.svg")).unwrap().contains("FIGURE=80"));

    // The profile describes the machine of the measurement.
    let profile = fs::read_to_string(folder.path().join("numapilot.toml")).unwrap();
    let comments =
        ["# Kernel: Linux ", "# Command: sh -c ", "# Result: 20.0 % less", "# Machine: "];
    for part in comments {
        assert!(profile.contains(part), "{part} is not in\n{profile}");
    }

    let mut run = Command::cargo_bin("numapilot").unwrap();
    run.current_dir(folder.path());
    run.args(["run", "--profile", "numapilot.toml", "--", "sh", "-c", PROGRAM]);
    run.assert().success().stdout("answer=1\nfigure=80\n").stderr("");
}

#[test]
fn a_profile_that_was_measured_elsewhere_is_reported() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    json(tune(folder.path(), &["fast"], &["--json"]));
    let file = folder.path().join("numapilot.toml");
    let profile = fs::read_to_string(&file).unwrap();
    let table: toml::Table = toml::from_str(&profile).unwrap();
    let measured = table["measured"].as_table().unwrap();
    for field in ["processor", "kernel", "numapilot", "command", "date", "metric", "interval"] {
        assert!(measured.contains_key(field), "{field} is not in\n{profile}");
    }
    assert!((measured["ratio"].as_float().unwrap() - 0.8).abs() < 1e-9);
    let here = measured["topology"].as_str().unwrap();
    fs::write(&file, profile.replace(here, "0123456789abcdef")).unwrap();
    let run = |option: &str| {
        let mut run = Command::cargo_bin("numapilot").unwrap();
        run.current_dir(folder.path());
        run.args(["run", option, "--profile=numapilot.toml", "--", "sh", "-c", PROGRAM]);
        run.assert()
    };
    let output =
        run("--thp=inherit").success().stdout("answer=1\nfigure=80\n").get_output().clone();
    let warning = String::from_utf8(output.stderr).unwrap();
    assert_eq!(warning.lines().count(), 1, "{warning}");
    assert!(warning.contains("warning: profile numapilot.toml: it was measured"), "{warning}");
    assert!(warning.contains(here) && warning.contains("0123456789abcdef"), "{warning}");
    let output = run("--strict").failure().code(125).stdout("").get_output().clone();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("numapilot tune"), "{error}");
}

#[test]
fn more_is_better_when_maximising() {
    let folder = folder(&[("a", "FIGURE", "80"), ("b", "FIGURE", "130")]);
    let report = json(tune(folder.path(), &["a", "b"], &["--json", "--maximize"]));
    assert_eq!(report["best"]["plan"], "FIGURE=130");
}

/// The manual's expressions for `bench`, whose output begins with other lines.
#[test]
fn expressions_are_matched_line_by_line() {
    let folder = folder(&[]);
    let script = "echo workload w1; echo seconds 1.5; echo checksum 0f; echo threads 2";
    let more = ["--json", "--metric", r"^seconds (\S+)", "--check", r"^checksum (\w+)$"];
    let report = json(tune_default(folder.path(), &more, script));
    assert_eq!(report["default"]["median"], 1.5);
    assert_eq!(report["metric"], r"^seconds (\S+)");
}

#[test]
fn people_get_tables() {
    let folder = folder(&[("fast", "FIGURE", "80"), ("crash", "STATUS", "3")]);
    let mut command = tune(folder.path(), &["fast", "crash"], &[]);
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    for part in [
        "below 1 is better",
        "FIGURE=80  0.800",
        "2 of 2 failed: exit status 3",
        "20.0 % less, 1.25 times better",
        "Profile: numapilot.toml\nUse it: ",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn when_nothing_beats_the_default_it_says_so() {
    let folder = folder(&[("slow", "FIGURE", "130")]);
    let report = json(tune(folder.path(), &["slow"], &["--json"]));
    assert_eq!(report["best"], Value::Null);
    assert!(!folder.path().join("numapilot.toml").exists());
    let mut command = tune(folder.path(), &["slow"], &[]);
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("Nothing is shown to beat the default"), "{text}");
    let last = "No profile written: no plan is shown to beat the default.\n";
    assert!(text.ends_with(last), "{text}");
}

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
    assert!(text.contains("fails without any plan: 1 of 4 runs"), "{text}");
    let resumed = json(tune_at_times(folder.path(), &["--force", "--resume", "--json"]));
    assert_eq!(resumed["best"]["plan"], "FIGURE=80");
}

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
fn decimal_commas_are_read_as_the_user_says() {
    let folder = folder(&[("slow", "FIGURE", "1,5")]);
    let run = |more: &[&str]| {
        let mut command = Command::cargo_bin("numapilot").unwrap();
        command.current_dir(folder.path()).args(["tune", "--state", "state", "--plan", "slow"]);
        command.args(["--force", "--factor", "allocator=inherit", "--factor", "thp=inherit"]);
        command.args(["--factor", "threads=none", "--factor", "memory=inherit"]);
        command.args(["--factor", "numa-balancing=inherit"]).args(more);
        command.args(["--metric", "real.*m([0-9,]+)s", "--", "sh", "-c"]);
        command.arg("echo real 0m${FIGURE:-1,021}s");
        command
    };
    let text = error(run(&[]), 125);
    assert!(text.contains("1,021") && text.contains("--decimal"), "{text}");
    let report = json(run(&["--decimal", "comma", "--json"]));
    assert_eq!(report["best"], Value::Null);
    let plans = report["plans"].as_array().unwrap();
    let slow = plans.iter().find(|plan| plan["plan"] == "FIGURE=1,5").unwrap();
    assert!((slow["ratio"].as_f64().unwrap() - 1.5 / 1.021).abs() < 1e-6, "{slow}");
    assert!(!folder.path().join("numapilot.toml").exists());
}

#[test]
fn what_cannot_end_well_is_refused_before_the_first_run() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    let refused = |more: &[&str]| error(tune(folder.path(), &["fast"], more), 125);
    assert!(refused(&["--max-runs", "3"]).contains("at least 18 runs"));
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

#[test]
fn a_killed_search_goes_on_where_it_was() {
    let folder = folder(&[("fast", "FIGURE", "80"), ("slow", "FIGURE", "130")]);
    let search = |more: &[&str]| tune(folder.path(), &["fast", "slow"], more);
    let whole = json(search(&["--json", "--svg", "x.svg"]));
    let journal = folder.path().join("state/trials.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // As kill -9 leaves it: some lines, the last one cut short.
    let kept = lines[..8].join("\n") + "\n" + &lines[8][..10];
    fs::write(&journal, &kept).unwrap();
    // The files that the search wrote when it stopped are replaced without --force.
    assert!(folder.path().join("numapilot.toml").exists());
    let resumed = json(search(&["--json", "--resume", "--svg", "x.svg"]));
    for key in ["best", "plans", "runs", "stop"] {
        assert_eq!(resumed[key], whole[key], "{key}");
    }
    let now = fs::read_to_string(&journal).unwrap();
    assert_eq!(now.lines().count(), lines.len());
    assert!(now.starts_with(&lines[..8].join("\n")));

    let other = tune(folder.path(), &["fast"], &["--resume"]);
    assert!(error(other, 125).contains("belongs to another search: its plans"));
}

#[test]
fn an_interruption_prints_what_is_known() {
    let folder = folder(&[("fast", "FIGURE", "80")]);
    let mut child = Process::new(assert_cmd::cargo::cargo_bin("numapilot"))
        .current_dir(folder.path())
        .args(["tune", "--state", "state", "--max-runs", "5000", "--resolution", "0.01", "--"])
        .args(["sleep", "0.05"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("noise")));
    PidFd::open(child.id().cast_signed()).unwrap().signal(libc::SIGINT).unwrap();
    let rest = std::thread::spawn(move || lines.count());
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("default: median") && text.contains("interrupted"), "{text}");
}

#[test]
fn a_signal_that_ends_it_is_in_the_status() {
    for (signal, status) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let folder = folder(&[]);
        let mut child = Process::new(assert_cmd::cargo::cargo_bin("numapilot"))
            .current_dir(folder.path())
            .args(["tune", "--state", "state", "--max-runs", "5000", "--", "sleep", "0.05"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("noise")));
        PidFd::open(child.id().cast_signed()).unwrap().signal(signal).unwrap();
        assert!(lines.count() < 1000);
        assert_eq!(child.wait().unwrap().code(), Some(status));
    }
}

/// `tune` of one plan, which changes nothing.
fn tune_default(folder: &Path, more: &[&str], script: &str) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.current_dir(folder).args(["tune", "--state", "state"]);
    if !more.contains(&"--timeout") {
        command.args(["--timeout", "60s"]);
    }
    for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
        command.args(["--factor", factor]);
    }
    command.args(["--factor", "numa-balancing=inherit"]).args(more);
    command.args(["--", "sh", "-c", script]);
    command
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

/// The process has neither the group, the session nor the environment of the run, and its parent
/// has ended.
#[test]
fn a_daemon_counts_in_the_memory_and_is_ended() {
    let folder = folder(&[]);
    // Without a newline, tail keeps everything until the input ends.
    let grows = "(head -c 100000000 /dev/zero; touch grown; exec sleep 60) | tail";
    let script = format!(
        "rm -f grown; (setsid env -i PATH=\"$PATH\" sh -c '{grows}' </dev/null >/dev/null 2>&1 &); \
         until test -e grown; do sleep 0.01; done"
    );
    let text = error(tune_default(folder.path(), &["--limit", "rss=60M"], &script), 125);
    assert!(text.contains("peak RSS") && text.contains("limit 60.0 MiB"), "{text}");
    let of_tail: Vec<&str> = text.split("it left tail (").skip(1).collect();
    assert!(!of_tail.is_empty(), "{text}");
    for rest in of_tail {
        let pid = rest.split(')').next().unwrap();
        assert!(!is_alive(pid), "tail {pid} lives on: {text}");
    }
}

#[test]
fn what_prepare_has_started_goes_on() {
    let folder = folder(&[]);
    let starts = "test -e server || \
         { (setsid env -i sleep 60 </dev/null >/dev/null 2>&1 & echo $! > server); }";
    let script = "kill -0 $(cat server)";
    let output = tune_default(folder.path(), &["--prepare", starts], script).output().unwrap();
    let server = fs::read_to_string(folder.path().join("server")).unwrap();
    let lives = is_alive(&server);
    let server = PidFd::open(server.trim().parse().unwrap());
    let _ = server.map(|server| server.signal(libc::SIGKILL));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && lives, "{text}");
    assert!(!text.contains("running, which was ended"), "{text}");
}

#[test]
fn a_program_that_has_changed_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let write = |text: &str| {
        make_executable(&program, &mut text.as_bytes());
    };
    let search = |more: &[&str]| {
        let mut command = Command::cargo_bin("numapilot").unwrap();
        command.current_dir(folder.path()).args(["tune", "--state", "state"]).args(more);
        for factor in ["allocator=inherit", "threads=none", "memory=inherit", "thp=inherit"] {
            command.args(["--factor", factor]);
        }
        command.args(["--factor", "numa-balancing=inherit", "--", "./program"]);
        command
    };
    write("#!/bin/sh\nexit 0\n");
    search(&[]).assert().success();
    search(&["--resume"]).assert().success();
    write("#!/bin/sh\nexit  0\n");
    let text = error(search(&["--resume"]), 125);
    assert!(text.contains("the program has changed"), "{text}");
    assert!(text.contains("start a new search without --resume"), "{text}");
}

/// An output that is full, so that writers wait, and its reader.
fn full_output() -> (UnixStream, Stdio) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    while writer.write(&[b' '; 4096]).is_ok() {}
    writer.set_nonblocking(false).unwrap();
    (reader, OwnedFd::from(writer).into())
}

/// The report cannot be printed, so the first Ctrl-C alone would not end the program.
#[test]
fn a_second_interruption_ends_at_once_and_leaves_nothing_running() {
    let folder = folder(&[]);
    let path = |name: &str| folder.path().join(name);
    let slow = "if test -e slow; then echo $$ > pid.new; mv pid.new pid; exec sleep 600; fi";
    let search = |more: &[&str]| {
        let mut command = Process::new(assert_cmd::cargo::cargo_bin("numapilot"));
        command.current_dir(folder.path()).args(["tune", "--state", "state"]).args(more);
        command.args(["--max-runs", "40", "--", "sh", "-c", slow]);
        command
    };
    let (_reader, output) = full_output();
    let mut child = search(&[]).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("noise")));
    let rest = std::thread::spawn(move || lines.count());
    fs::write(path("slow"), "").unwrap();
    let program = loop {
        if let Ok(text) = fs::read_to_string(path("pid")) {
            break text.trim().parse::<i32>().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let program = PidFd::open(program).unwrap();
    let search_process = PidFd::open(child.id().cast_signed()).unwrap();
    for _ in 0..1000 {
        search_process.signal(libc::SIGINT).unwrap();
        if search_process.ended_within(Some(Duration::from_millis(20))).unwrap() {
            break;
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    rest.join().unwrap();
    assert!(program.ended_within(Some(Duration::from_secs(60))).unwrap());

    fs::remove_file(path("slow")).unwrap();
    let resumed = search(&["--resume", "--json"]).output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let report: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert!(report["runs"].as_u64().unwrap() > 5);
}

/// Compiles a program. Without a C compiler, prints that the test is skipped.
fn compiled(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Option<String> {
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

/// Its parent ends at once, and it ends before it was observed.
#[test]
fn the_limit_holds_for_a_daemon_that_has_ended() {
    let folder = folder(&[]);
    let script = "rm -f done; (sh -c 'head -c 90000000 /dev/zero | tail -c 90000000 | wc -c; \
                  : > done' > /dev/null 2>&1 &); until [ -e done ]; do sleep 0.01; done";
    let text = error(tune_default(folder.path(), &["--limit", "rss=60M"], script), 125);
    assert!(text.contains("peak RSS") && text.contains("limit"), "{text}");
}

#[test]
fn numbers_whose_units_are_not_known_are_compared_in_one_unit_only() {
    let folder = folder(&[("scaled", "RATE", "1.10 Mops/s")]);
    let more = ["--json", "--plan", "scaled", "--maximize", "--metric", "rate ([0-9.]+)"];
    let script = "echo rate ${RATE:-950 kops/s}";
    let report = json(tune_default(folder.path(), &more, script));
    let plans = report["plans"].to_string();
    assert!(plans.contains("'1.10 Mops/s' and '950 kops/s' of an earlier run"), "{report}");
}
