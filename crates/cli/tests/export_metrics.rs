//! Tests of `numapilot export-metrics`: by HTTP, as a file, once, and what it refuses.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use assert_cmd::assert::OutputAssertExt;
use numapilot_test_kit::{Cgroup, wait_until};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use programs::{NUMAPILOT, signal};

fn exporter(arguments: &[&str]) -> Command {
    let mut command = Command::new(NUMAPILOT);
    command.arg("export-metrics").args(arguments);
    command
}

/// A process that is killed at the end of the test.
struct Guard(Child);

impl Guard {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// A program that waits.
    fn sleeper() -> Self {
        Self::start(Command::new("sleep").arg("600").stdout(Stdio::null()))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Waits for its end, and returns its exit status.
    fn code(&mut self) -> Option<i32> {
        wait_until("the exporter does not end", || self.0.try_wait().unwrap().is_some());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An exporter that serves, and its address.
fn serving(arguments: &[&str]) -> (Guard, String) {
    let mut command = exporter(&["--listen", "127.0.0.1:0", "-d", "100ms"]);
    let mut guard = Guard::start(command.args(arguments).stderr(Stdio::piped()));
    let stderr = BufReader::new(guard.0.stderr.take().unwrap());
    let address = stderr.lines().map_while(Result::ok).find_map(|line| {
        let address = line.strip_prefix("numapilot: serving http://")?.strip_suffix("/metrics")?;
        Some(address.to_owned())
    });
    (guard, address.unwrap())
}

/// The response to a request line.
fn request(address: &str, line: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(format!("{line} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn scrape(address: &str) -> String {
    let response = request(address, "GET /metrics");
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    body.to_owned()
}

/// The value of a label of a sample.
fn label(sample: &str, name: &str) -> String {
    let rest = sample.split_once(&format!("{name}=\"")).unwrap().1;
    rest.split('"').next().unwrap().to_owned()
}

/// Resident bytes by node of a command.
fn exported(text: &str, command: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter(|line| line.starts_with("numapilot_process_resident_bytes{"))
        .filter(|line| label(line, "command") == command)
        .map(|line| (label(line, "node"), line.rsplit(' ').next().unwrap().parse().unwrap()))
        .collect()
}

/// The same by the kernel's own file.
fn in_numa_maps(pid: &str) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    let mut sum = BTreeMap::new();
    for line in text.lines() {
        let field = |prefix: &str| line.split(' ').find_map(|word| word.strip_prefix(prefix));
        let kib: u64 = field("kernelpagesize_kB=").map_or(4, |size| size.parse().unwrap());
        for word in line.split(' ').filter(|word| word.starts_with('N')) {
            let (node, pages) = word[1..].split_once('=').unwrap();
            *sum.entry(node.to_owned()).or_default() += pages.parse::<u64>().unwrap() * kib * 1024;
        }
    }
    sum
}

#[test]
fn memory_by_node_is_that_of_the_kernel() {
    let sleeper = Guard::sleeper();
    if in_numa_maps(&sleeper.pid()).is_empty() {
        println!("skipped: this kernel has no numa_maps");
        return;
    }
    let (mut server, address) = serving(&["-p", &sleeper.pid()]);
    // The program may still map its libraries.
    wait_until("the figures are not those of the kernel", || {
        let before = in_numa_maps(&sleeper.pid());
        let seen = exported(&scrape(&address), "sleep");
        !before.is_empty() && seen == before
    });
    let text = scrape(&address);
    for line in [
        format!("numapilot_target_processes{{target=\"{}\"}} 1", sleeper.pid()),
        format!("numapilot_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
        "numapilot_node_distance{from=\"0\",to=\"0\"} 10".to_owned(),
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    // A ratio is there, or the reason why it is not.
    for metric in ["numapilot_local_access_ratio", "numapilot_controller_imbalance_ratio"] {
        let is_there = text.lines().any(|line| line.starts_with(metric));
        let is_missing = text.contains(&format!("numapilot_unsupported_info{{metric=\"{metric}\""));
        assert!(is_there != is_missing, "{metric}: {text}");
    }
    assert!(request(&address, "HEAD /metrics").ends_with("\r\n\r\n"));
    assert!(request(&address, "GET /").starts_with("HTTP/1.1 404 "));
    assert!(request(&address, "POST /metrics").starts_with("HTTP/1.1 405 "));
    signal(&server.0, libc::SIGTERM);
    assert_eq!(server.code(), Some(0));
}

#[test]
fn the_plan_and_the_cpus_of_a_program_are_those_it_was_given() {
    let mut command = Command::new(NUMAPILOT);
    command.args(["run", "-C", "0", "--thp", "never", "--env", "KEY=secret", "--", "sleep", "600"]);
    let program = Guard::start(command.stdout(Stdio::null()));
    let pid = program.pid();
    let text = || String::from_utf8(once(&["-p", &pid]).stdout).unwrap();
    wait_until("the program does not start", || text().contains("command=\"sleep\",node="));
    let text = text();
    for line in [
        format!("numapilot_cores_allocated{{target=\"{pid}\"}} 1\n"),
        format!(
            "numapilot_run_info{{target=\"{pid}\",command=\"sleep\",plan=\"CPUs 0, thp never\"}} 1\n"
        ),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(!text.contains("secret") && !text.contains("balance_moved"), "{text}");
}

#[test]
fn it_ends_when_all_processes_have_ended() {
    let sleeper = Guard::sleeper();
    let (mut server, _) = serving(&["-p", &sleeper.pid()]);
    drop(sleeper);
    assert_eq!(server.code(), Some(0));
}

#[test]
fn a_control_group_has_the_processes_that_are_in_it_now() {
    let Some(group) = Cgroup::make("export") else {
        println!("skipped: no group of cgroup v2 can be made");
        return;
    };
    // Declared after the group, and so ended before it is removed.
    let first = Guard::sleeper();
    if !group.join(&first.pid()) {
        println!("skipped: no process may be moved into a group");
        return;
    }
    let path = Cgroup::path_of(&first.pid());
    let (_server, address) = serving(&["--cgroup", &path]);
    let count = |n: usize| format!("numapilot_target_processes{{target=\"{path}\"}} {n}\n");
    let text = scrape(&address);
    assert!(text.contains(&count(1)), "{text}");
    assert!(text.contains(&format!("target=\"{path}\",cgroup=\"{path}\",command=\"sleep\"")));
    let second = Guard::sleeper();
    assert!(group.join(&second.pid()));
    wait_until("the second process is not found", || scrape(&address).contains(&count(2)));
    drop((first, second));
    wait_until("the group is not empty", || scrape(&address).contains(&count(0)));
}

#[test]
fn what_has_no_process_is_announced_and_counted() {
    let output = once(&["--unit", "numapilot-test-none", "--cgroup", "/numapilot/none"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for target in ["numapilot-test-none.service", "/numapilot/none"] {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(&format!("{target} has no process now")), "{stderr}");
        assert!(text.contains(&format!("numapilot_target_processes{{target=\"{target}\"}} 0\n")));
    }
}

fn once(arguments: &[&str]) -> Output {
    let output = exporter(&["--once", "-d", "50ms"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn promtool_accepts_the_metrics() {
    let own = std::process::id().to_string();
    let text = once(&["-p", &own, "--cgroup", "/none \"\\"]).stdout;
    let Some(output) = promtool(&["check", "metrics"], &text) else { return };
    assert!(output.status.success(), "{output:?}");
    // It also reports what does not follow the conventions.
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

/// Runs promtool with this input. Without it, prints that the test is skipped.
fn promtool(arguments: &[&str], input: &[u8]) -> Option<Output> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut promtool) = command.spawn() else {
        println!("skipped: no promtool; Debian: apt-get install prometheus");
        return None;
    };
    promtool.stdin.take().unwrap().write_all(input).unwrap();
    Some(promtool.wait_with_output().unwrap())
}

/// A file of docs/prometheus.
fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/prometheus").join(name)
}

#[test]
fn promtool_accepts_the_rules_and_their_tests() {
    for (what, file) in [("check", "numapilot.rules.yml"), ("test", "numapilot.rules.test.yml")] {
        let Some(output) = promtool(&[what, "rules", path(&shipped(file))], b"") else { return };
        assert!(output.status.success(), "{output:?}");
    }
}

/// Names that begin with `numapilot_`.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("numapilot_")).map(str::to_owned).collect()
}

/// The queries of every panel of the dashboard.
fn queries(dashboard: &serde_json::Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let page = fs::read_to_string(shipped("../src/export-metrics.md")).unwrap();
    let table = page.lines().filter(|line| line.starts_with("| `"));
    let documented: BTreeSet<String> = table
        .flat_map(|line| line.split('|').nth(1).unwrap().split(','))
        .map(|name| format!("numapilot_{}", name.trim().trim_matches('`')))
        .collect();
    let own = std::process::id().to_string();
    let emitted = metrics(&String::from_utf8(once(&["-p", &own]).stdout).unwrap());
    let undocumented: Vec<_> = emitted.difference(&documented).collect();
    assert!(undocumented.is_empty(), "{undocumented:?}");
    // These need a run of balance, and a program that was started by run.
    let elsewhere = ["numapilot_balance_moved_bytes_total", "numapilot_run_info"];
    let all: BTreeSet<String> = emitted.into_iter().chain(elsewhere.map(str::to_owned)).collect();
    assert!(all.is_subset(&documented), "{all:?}");
    for file in ["numapilot.rules.yml", "numapilot-dashboard.json"] {
        let used = metrics(&fs::read_to_string(shipped(file)).unwrap());
        assert!(used.len() > 3 && used.is_subset(&all), "{file}: {used:?}");
    }
}

#[test]
fn promtool_accepts_the_queries_of_the_dashboard() {
    let text = fs::read_to_string(shipped("numapilot-dashboard.json")).unwrap();
    // Grafana puts a duration there.
    let text = text.replace("$__rate_interval", "1m");
    let queries = queries(&serde_json::from_str(&text).unwrap());
    assert!(queries.len() > 5, "{queries:?}");
    // JSON is YAML, and variables of Grafana are words in strings.
    let rule = |(i, query): (usize, &String)| serde_json::json!({"record": format!("query:{i}"), "expr": query});
    let rules: Vec<serde_json::Value> = queries.iter().enumerate().map(rule).collect();
    let rules = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.json");
    fs::write(&file, rules.to_string()).unwrap();
    let Some(output) = promtool(&["check", "rules", path(&file)], b"") else { return };
    assert!(output.status.success(), "{output:?}");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_textfile_is_readable_has_one_writer_and_is_removed_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let into = ["--textfile", path(directory.path()), "-d", "100ms"];
    let file = directory.path().join("numapilot.prom");
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$0\" \"$@\"", NUMAPILOT, "export-metrics"]);
    let mut writer = Guard::start(command.args(into));
    wait_until("the file is not written", || file.exists());
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    let first = fs::read_to_string(&file).unwrap();
    assert!(first.contains("\nnumapilot_node_distance{"), "{first}");
    wait_until("the file is not renewed", || fs::read_to_string(&file).unwrap() != first);

    let refused = exporter(&into).assert().code(125);
    refused.stderr(contains("another numapilot export-metrics").and(contains("--name")));
    let own = std::process::id().to_string();
    let second = ["--name", "other", "--targets-only", "--once", "-p", &own];
    exporter(&into).args(second).assert().success();
    let other = directory.path().join("other.prom");
    let text = fs::read_to_string(&other).unwrap();
    // The node exporter refuses a series that is in two files.
    let series = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    assert!(text.contains("numapilot_target_processes{"), "{text}");
    assert!(series(&text).is_disjoint(&series(&first)), "{text}");

    signal(&writer.0, libc::SIGINT);
    assert_eq!(writer.code(), Some(0));
    assert!(!file.exists() && other.exists());
}

#[test]
fn what_cannot_be_is_refused() {
    let refuse = |arguments: &[&str], message: &str| {
        // With a time limit, because what is accepted would run for ever.
        let mut command = assert_cmd::Command::from_std(exporter(arguments));
        let limited = command.timeout(Duration::from_secs(60));
        limited.assert().code(125).stderr(contains(message));
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refuse(&["--listen", &address], "give another port");
    refuse(&["--listen", "192.0.2.1:9899"], "give an address of this machine");
    refuse(&["--listen", "here"], "give a port as well, as in here:9899");
    refuse(&["--listen", "127.0.0.1:0", "--once"], "cannot be used with");
    refuse(&["-p", "2147483647"], "2147483647 does not exist");
    refuse(&["-p", "0"], "invalid value '0'");
    refuse(&["--cgroup", "system.slice"], "--unit");
    refuse(&["--cgroup", "/a/../b"], "..");
    refuse(&["--unit", "a/b"], "--cgroup");
    refuse(&["--once", "-d", "1ms"], "50ms or more");
    refuse(&["--name", "x"], "--textfile");
    refuse(&["--targets-only"], "needs a target");
    refuse(&["--textfile", "/nonexistent"], "is not a directory");
    let directory = tempfile::tempdir().unwrap();
    let into = path(directory.path());
    refuse(&["--textfile", into, "--name", "../x"], "without its directory");
    fs::write(directory.path().join("node.prom"), "node_load1 1\n").unwrap();
    refuse(&["--textfile", into, "--name", "node"], "was not written by numapilot");
    refuse(&["--textfile", "/proc"], "cannot write");
}
