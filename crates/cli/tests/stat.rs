//! Tests of `numapilot stat` as a user runs it.
#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod programs;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command as Process, Stdio};

use assert_cmd::Command;
use numapilot_sys::process::PidFd;
use predicates::prelude::*;
use serde_json::Value;

fn stat(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.arg("stat").args(arguments);
    command
}

fn json(arguments: &[&str]) -> Value {
    let output = stat(&["--json"]).args(arguments).assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

/// A process that ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Process::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fields that scripts may rely on.
const PROMISED: [&str; 10] = [
    "seconds",
    "user_seconds",
    "system_seconds",
    "peak_rss_bytes",
    "minor_faults",
    "cpu_migrations",
    "local_accesses",
    "remote_accesses",
    "local_access_ratio",
    "controller_imbalance",
];

/// Waits for the first line and returns it.
fn first_line(output: impl Read) -> String {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    line
}

#[test]
fn every_promised_field_is_a_number_or_null_with_a_reason() {
    let seen = json(&["--", "sleep", "0.05"]);
    for field in PROMISED {
        let reason = seen["unsupported"].get(field);
        match &seen[field] {
            Value::Number(_) => assert!(reason.is_none(), "{field}"),
            Value::Null => assert!(reason.unwrap().as_str().unwrap().len() > 10, "{field}"),
            other => panic!("{field}: {other}"),
        }
    }
    assert!(seen["seconds"].as_f64().unwrap() >= 0.05);
    assert!(seen["minor_faults"].as_u64().unwrap() > 10);
    assert!(seen["peak_rss_bytes"].as_u64().unwrap() > 100 << 10);
    assert_eq!(seen["exit_status"], 0);
    assert_eq!(seen["command"][0], "sleep");
    let has_reason = seen["unsupported"]["dram_events"].is_string();
    assert_eq!(seen["dram_events"].is_null(), has_reason, "{seen}");
    let nodes = seen["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|n| n["memory_bytes"].as_u64().is_some_and(|b| b > 0)), "{seen}");
}

#[test]
fn without_a_pmu_cycles_are_not_supported_and_never_zero() {
    let devices = "/sys/bus/event_source/devices";
    if fs::read_dir(devices).is_ok_and(|mut d| {
        d.any(|e| e.is_ok_and(|e| e.file_name().to_string_lossy().starts_with("cpu")))
    }) {
        eprintln!("skipped: this machine has a PMU");
        return;
    }
    let seen = json(&["--", "true"]);
    for field in ["cycles", "instructions", "ipc", "local_accesses", "local_access_ratio"] {
        assert!(seen[field].is_null(), "{field}");
        assert!(seen["unsupported"][field].as_str().unwrap().contains("no hardware PMU"));
    }
    stat(&["--", "true"])
        .assert()
        .stderr(predicate::str::contains(" <not supported> cycles, instructions,"))
        .stderr(predicate::str::contains("no hardware PMU"));
}

#[test]
fn the_childs_status_and_output_are_its_own() {
    stat(&["--", "sh", "-c", "echo mine; exit 7"])
        .assert()
        .code(7)
        .stdout("mine\n")
        .stderr(predicate::str::contains("NUMA figures of 'sh -c echo mine; exit 7'"));
    stat(&["--", "sh", "-c", "kill -9 $$"]).assert().code(137);
    // Options after the program are the program's.
    stat(&["echo", "-r", "--json"]).assert().success().stdout("-r --json\n");
}

#[test]
fn a_program_that_cannot_be_run_is_named() {
    stat(&["--", "/nonexistent/program"])
        .assert()
        .code(127)
        .stderr(predicate::str::contains("/nonexistent/program"));
    stat(&["--", "/etc/passwd"]).assert().code(126);
    stat(&[]).assert().code(125).stderr(predicate::str::contains("COMMAND"));
}

#[test]
fn repeated_runs_have_means_and_deviations() {
    let seen = json(&["-r", "3", "--", "true"]);
    assert_eq!(seen["repetitions"], 3);
    assert_eq!(seen["runs"].as_array().unwrap().len(), 3);
    let faults = &seen["statistics"]["minor_faults"];
    assert_eq!(faults["runs"], 3);
    assert!(faults["standard_deviation"].as_f64().unwrap() >= 0.0);
    let mean: f64 =
        seen["runs"].as_array().unwrap().iter().map(|r| r["minor_faults"].as_f64().unwrap()).sum();
    assert!((seen["minor_faults"].as_f64().unwrap() - mean / 3.0).abs() < 1e-6);
    assert!(seen["statistics"].get("cycles").is_none() || seen["cycles"].is_number());
    stat(&["-r", "2", "--", "true"])
        .assert()
        .stderr(predicate::str::contains("(mean of 2 runs)").and(predicate::str::contains("( ± ")));
    for bad in ["0", "-1", "x"] {
        stat(&["-r", bad, "--", "true"]).assert().code(125);
    }
}

#[test]
fn runs_that_failed_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let script = "echo x >> runs; test $(wc -l < runs) != 2 || exit 9; sleep 0.1";
    let mut command = stat(&["--json", "-r", "3", "--", "sh", "-c", script]);
    let output = command.current_dir(directory.path()).assert().code(9).get_output().clone();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["failed_runs"], &value["repetitions"]), (&1.into(), &3.into()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("1 of 3 runs failed (the first with exit status 9)"), "{stderr}");
}

/// A daemon's parent ends at once, and the daemon becomes a child of numapilot.
#[test]
fn a_program_that_becomes_a_daemon_is_still_seen() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = "import os, time\nx = b'x' * (64 << 20)\nopen('ready', 'w')\n\
                  for _ in range(1200):\n time.sleep(0.05)\n if os.path.exists('stop'): break\n";
    let script = "(setsid python3 -c \"$0\" > /dev/null 2>&1 &)\n\
                  i=0; while [ ! -e ready ] && [ $i -lt 400 ]; do sleep 0.05; i=$((i+1)); done\n\
                  sleep 0.5; touch stop";
    let mut command = stat(&["--json", "--", "sh", "-c", script, daemon]);
    let output = command.current_dir(directory.path()).assert().success().get_output().clone();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = value["peak_rss_bytes"].as_u64().unwrap();
    assert!(peak > 64 << 20, "{peak}");
}

/// Two processes with 40 MB each, at the same time.
#[test]
fn the_peak_is_that_of_one_process() {
    let one = "perl -e '$_ = q(x); $_ x= 40_000_000; select(undef, undef, undef, 0.5)' &";
    let script = format!("{one} {one} wait");
    let output = stat(&["--json", "--", "sh", "-c", &script]).assert().success();
    let value: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let peak = value["peak_rss_bytes"].as_u64().unwrap();
    assert!((38_000_000..70_000_000).contains(&peak), "{peak}");
}

#[test]
fn intervals_are_lines_of_json() {
    let output = stat(&["--json", "-I", "50", "--", "sleep", "0.3"])
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let lines: Vec<Value> = String::from_utf8(output)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (last, lines) = lines.split_last().unwrap();
    assert!(lines.len() >= 2, "{lines:?}");
    assert!(lines.is_sorted_by_key(|l| l["time"].as_f64().unwrap()));
    assert!(lines.iter().all(|l| l["minor_faults"].is_number()));
    // The last line is what would be printed without intervals.
    let total = &last["total"];
    assert!(total["seconds"].as_f64().unwrap() >= 0.3, "{last}");
    assert_eq!((&total["exit_status"], &total["command"][0]), (&0.into(), &"sleep".into()));
    assert_eq!(last.as_object().unwrap().len(), 1, "{last}");
}

#[test]
fn figures_go_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("figures.json");
    let name = path.to_str().unwrap();
    stat(&["--json", "-o", name, "--", "echo", "mine"]).assert().success().stdout("mine\n");
    let seen: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(seen["seconds"].is_number());
    let marker = directory.path().join("ran");
    stat(&["-o", "/nonexistent/file", "--", "touch", marker.to_str().unwrap()])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("cannot write /nonexistent/file: No such file"));
    assert!(!marker.exists(), "the program was run though its figures had nowhere to go");
}

/// Neither a full disk nor a reader that goes away ends the observed program.
#[test]
fn a_failed_write_does_not_end_the_program() {
    if !fs::exists("/dev/full").unwrap_or(false) {
        eprintln!("skipped: no /dev/full");
        return;
    }
    let program = ["sh", "-c", "sleep 0.4; exit 7"];
    let output = stat(&["-I", "50", "-o", "/dev/full", "--"]).args(program).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert_eq!(stderr.matches("No space left").count(), 1, "{stderr}");
    let mut child = Process::new(env!("CARGO_BIN_EXE_numapilot"))
        .args(["stat", "-I", "50", "--json", "--"])
        .args(program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let line = first_line(child.stdout.take().unwrap());
    assert!(line.starts_with('{'), "{line}");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert_eq!(stderr.matches("Broken pipe").count(), 1, "{stderr}");
}

#[test]
fn a_running_process_is_observed_until_the_command_ends() {
    let sleeper = Sleeper::start();
    let seen = json(&["-p", &sleeper.pid(), "--", "sleep", "0.2"]);
    assert_eq!(seen["pids"][0].to_string(), sleeper.pid());
    assert!(seen["rss_bytes"].as_u64().unwrap() > 0);
    assert!(seen["seconds"].as_f64().unwrap() >= 0.2);
    let limited = json(&["-p", &sleeper.pid(), "--timeout", "0.1"]);
    assert!(limited["seconds"].as_f64().unwrap() >= 0.1);
}

/// Adds huge pages to the pool until it is dropped.
struct Pool(u64);

impl Pool {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    /// Adds pages; `None` if this many are not available.
    fn with(more: u64) -> Option<Self> {
        let before: u64 = fs::read_to_string(Self::FILE).ok()?.trim().parse().ok()?;
        fs::write(Self::FILE, (before + more).to_string()).ok()?;
        let pool = Self(before);
        let now: u64 = fs::read_to_string(Self::FILE).ok()?.trim().parse().ok()?;
        (now >= before + more).then_some(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = fs::write(Self::FILE, self.0.to_string());
    }
}

#[test]
fn huge_pages_of_hugetlbfs_are_in_every_total() {
    const PAGES: u64 = 4;
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = programs::compiled("hugetlb.c", directory.path()) else { return };
    let Some(_pool) = Pool::with(PAGES) else {
        println!("skipped: no huge pages can be set aside here (root, and free memory)");
        return;
    };
    let program = program.to_str().unwrap();
    let seen = json(&["--", program, &PAGES.to_string()]);
    let pages = PAGES << 21;
    for name in ["rss_bytes", "peak_rss_bytes"] {
        let bytes = seen[name].as_u64().unwrap();
        assert!((pages..2 * pages).contains(&bytes), "{name}: {seen}");
    }
    let on_nodes = seen["nodes"].as_array().unwrap().iter();
    let on_nodes: u64 = on_nodes.filter_map(|node| node["memory_bytes"].as_u64()).sum();
    assert!((pages..2 * pages).contains(&on_nodes), "{seen}");
}

#[test]
fn a_process_that_ends_ends_the_observation() {
    let mut child = Process::new("sleep").arg("0.3").spawn().unwrap();
    let pid = child.id().to_string();
    let waiter = std::thread::spawn(move || child.wait());
    let seen = json(&["-p", &pid]);
    assert!(seen["seconds"].as_f64().unwrap() < 60.0);
    waiter.join().unwrap().unwrap();
}

#[test]
fn processes_that_cannot_be_observed_are_named() {
    for pid in ["2147483647", "4194304"] {
        stat(&["-p", pid])
            .assert()
            .code(125)
            .stderr(predicate::str::contains(format!("process {pid} does not exist")));
    }
    let mut dead = Process::new("true").spawn().unwrap();
    dead.wait().unwrap();
    stat(&["-p", &dead.id().to_string()]).assert().code(125);
    for bad in ["0", "-3", "x", "1,,2"] {
        stat(&["-p", bad]).assert().code(125);
    }
    stat(&["-p", "1", "-a"]).assert().code(125);
}

#[test]
fn another_users_process_is_refused_with_a_remedy() {
    // A copy that any user may execute, and root to start it as another one.
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let copy = directory.path().join("numapilot");
    // Copied by a separate process: see the tests of `doctor`.
    let binary = assert_cmd::cargo::cargo_bin("numapilot");
    assert!(Process::new("cp").arg(binary).arg(&copy).status().unwrap().success());
    let open = |path: &std::path::Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    open(directory.path());
    open(&copy);
    let sleeper = Sleeper::start();
    let output = Process::new("setpriv")
        .args(["--reuid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["stat", "-p", &sleeper.pid()])
        .output();
    let stderr = match output {
        Ok(output) if output.status.code() == Some(125) => {
            String::from_utf8_lossy(&output.stderr).into_owned()
        }
        Ok(output) => {
            let cause = String::from_utf8_lossy(&output.stderr);
            println!("skipped: cannot become another user here: {}", cause.trim());
            return;
        }
        Err(error) => {
            println!("skipped: cannot become another user here: setpriv: {error}");
            return;
        }
    };
    assert!(stderr.contains("belongs to user") && stderr.contains("CAP_SYS_PTRACE"), "{stderr}");
}

#[test]
fn the_whole_machine() {
    let seen = json(&["-a", "--", "sleep", "0.2"]);
    assert_eq!(seen["pids"].as_array().unwrap().len(), 0);
    assert!(seen["minor_faults"].is_number());
    assert!(seen["peak_rss_bytes"].is_null());
    let nodes = seen["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|n| n["memory_bytes"].as_u64().is_some_and(|b| b > 1 << 20)));
}

#[test]
fn signals_reach_the_program() {
    let mut child = Process::new(assert_cmd::cargo::cargo_bin("numapilot"))
        .args(["stat", "--", "sh", "-c", "trap 'exit 9' TERM; echo; while :; do sleep 0.05; done"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    first_line(child.stdout.as_mut().unwrap());
    PidFd::open(child.id().cast_signed()).unwrap().signal(libc::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert!(String::from_utf8_lossy(&output.stderr).contains("elapsed"));
}

#[test]
fn a_time_limit_ends_the_program() {
    let seen = stat(&["--json", "--timeout", "0.2", "--", "sleep", "600"])
        .assert()
        .code(143)
        .get_output()
        .stdout
        .clone();
    let seen: Value = serde_json::from_slice(&seen).unwrap();
    assert_eq!(seen["exit_status"], 143);
    assert!(seen["seconds"].as_f64().unwrap() < 60.0);
    for bad in ["0", "-1", "x", "1e30"] {
        stat(&["--timeout", bad, "--", "true"]).assert().code(125);
    }
}

#[test]
fn events_choose_the_figures() {
    let text = stat(&["-e", "cs,page-faults", "--", "true"]).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stderr).into_owned();
    let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("no {name}: {text}"));
    assert!(at("context-switches") < at("minor-faults") && at("minor-faults") < at("major-faults"));
    assert!(
        !text.contains("peak-rss") && !text.contains("node") && !text.contains("PMU"),
        "{text}"
    );
    let lines = stat(&["-x", ";", "-e", "minor-faults,user", "-e", "elapsed", "true"]).assert();
    let lines = String::from_utf8_lossy(&lines.success().get_output().stderr).into_owned();
    let fields: Vec<Vec<&str>> = lines.lines().map(|line| line.split(';').collect()).collect();
    assert_eq!(fields.len(), 3, "{lines}");
    assert!(fields[0][0].parse::<u64>().unwrap() > 10, "{lines}");
    assert_eq!((fields[0][1], fields[0][2]), ("", "minor-faults"));
    assert_eq!((fields[1][1], fields[1][2]), ("s", "user"));
    assert!(fields[2][0].parse::<f64>().unwrap() > 0.0 && fields[2][2] == "elapsed", "{lines}");
    stat(&["-e", "nonsense", "--", "true"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("task-clock"));
    // Options of the program are passed on; unknown ones before it are refused.
    stat(&["sh", "-c", "exit 3"]).assert().code(3);
    stat(&["-Q", "--", "true"]).assert().code(125).stderr(predicate::str::contains("-Q"));
}

/// The program has run, so its status is kept even if the figures are lost.
#[test]
fn figures_that_cannot_be_written_leave_the_programs_status() {
    if !fs::exists("/dev/full").unwrap_or(false) {
        eprintln!("skipped: no /dev/full");
        return;
    }
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for options in [&["-o", "/dev/full"][..], &["--json"], &[]] {
        let mut command = Process::new(assert_cmd::cargo::cargo_bin("numapilot"));
        command.arg("stat").args(options).args(["sh", "-c", "exit 3"]);
        if options.is_empty() {
            command.stderr(full());
        }
        let output = command.stdout(full()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{options:?}: {stderr}");
        if !options.is_empty() {
            assert_eq!(stderr.matches("No space left").count(), 1, "{stderr}");
            assert!(stderr.contains("the exit status is the program's"), "{stderr}");
        }
    }
    // Without a program of the user, the figures are all that matters.
    stat(&["-a", "-o", "/dev/full", "--timeout", "0.1"]).assert().code(125);
}

#[test]
fn only_events_that_were_asked_for_are_explained() {
    let text = |arguments: &[&str]| {
        let output = stat(arguments).assert().success().get_output().stderr.clone();
        String::from_utf8(output).unwrap()
    };
    let all = text(&["true"]);
    // Each missing figure is named once, with its reason.
    assert!(!all.contains("<not supported>   "), "{all}");
    let one = text(&["-e", "cycles", "true"]);
    assert!(one.contains("   cycles"), "{one}");
    assert!(!one.contains("memory"), "{one}");
}
