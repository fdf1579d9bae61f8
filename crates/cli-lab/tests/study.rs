//! `numapilot study`, with experiments that are short shell commands.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use numapilot_test_kit::wait_until;
use predicates::prelude::*;
use predicates::str::contains;
use tempfile::TempDir;

/// `slow` reports twice the seconds of `fast`.
const TINY: &str = r#"
id = "T1"
title = "Slow against fast"
paper = "none"
place = "Table 1"
says = "slow takes twice as long"
differs = "everything"
machine = "host"
command = "BEFORE echo '{\"seconds\": {kind}}'"
picture = "seconds"

[factors]
kind = [["fast", "1.0"], ["slow", "2.0"]]

[scale.smoke]
repetitions = 3

[metrics.seconds]
field = "seconds"
unit = "s"

[[claims]]
text = "slow over fast"
of = { metric = "seconds", at = { kind = "slow" }, over = { kind = "fast" } }
paper = 2.0
band = [1.5, 2.5]
above = 1.0
"#;

struct Place(TempDir);

impl Place {
    /// An experiment whose command begins with `before`.
    fn new(before: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("tiny.toml"), TINY.replace("BEFORE", before)).unwrap();
        place
    }

    /// Marks the experiment as one on an emulated machine.
    fn is_emulated(&self) {
        let path = self.path("tiny.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("machine = \"host\"", "machine = \"machine-a\"")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn study(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("numapilot").unwrap();
        command.current_dir(self.0.path()).arg("study").args(arguments);
        command
    }

    fn results(&self) -> String {
        fs::read_to_string(self.path("numapilot-study.jsonl")).unwrap()
    }

    fn trials(&self) -> usize {
        self.records("trial")
    }

    fn records(&self, kind: &str) -> usize {
        let begin = format!("{{\"{kind}\"");
        self.results().lines().filter(|line| line.starts_with(&begin)).count()
    }
}

#[test]
fn the_list_names_every_experiment_and_paper() {
    let place = Place::new("");
    let list = place.study(&["list"]).assert().success();
    list.stdout(contains("A5").and(contains("Figure 5a")).and(contains("machine-a")));
    let json =
        place.study(&["list", "--paper", "systematic-numa-study", "--json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json.as_array().unwrap().iter().all(|e| e["trials"].as_u64().unwrap() > 0));
    place
        .study(&["list", "--paper", "x"])
        .assert()
        .code(125)
        .stderr(contains("there is no paper 'x'"));
}

#[test]
fn a_claim_that_holds_is_reproduced_and_its_trials_are_kept() {
    let place = Place::new("");
    let run = place.study(&["run", "tiny.toml"]).assert().success();
    run.stdout(contains("T1  Slow against fast").and(contains("2.00 to 2.00   reproduced")))
        .stderr(contains("noise of this host"));
    assert_eq!(place.trials(), 6);
    // Nothing is overwritten, and no trial runs again.
    place.study(&["run", "tiny.toml"]).assert().code(125).stderr(contains("give --resume"));
    place.study(&["run", "tiny.toml", "--resume"]).assert().success();
    assert_eq!((place.trials(), place.records("host")), (6, 1), "nothing was run on a second host");
    assert_eq!(place.records("experiment"), 1, "nothing new was message of it");
}

#[test]
fn a_first_look_tells_how_long_the_rest_takes() {
    let place = Place::new("");
    let known = place.study(&["list", "--paper", "prt-pro"]).assert().success();
    known.stdout(contains("not known how long").and(contains("study run --repetitions 1")));
    let run = place.study(&["run", "D2", "--repetitions", "1", "--json"]).assert().success();
    run.stdout(contains("\"undecided\"").or(contains("\"shown\"")));
    assert_eq!(place.trials(), 1);
    let list = || {
        let output = place.study(&["list", "--machine", "host", "--json"]).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        json.as_array().unwrap().iter().find(|e| e["id"] == "D2").unwrap().clone()
    };
    let listed = list();
    assert_eq!((&listed["trials"], &listed["left"]["trials"]), (&3.into(), &2.into()));
    assert!(listed["left"]["seconds"].as_f64().unwrap() > 0.0 && listed["left"]["unknown"] == 0);
    place.study(&["run", "D2", "--resume"]).assert().success();
    assert_eq!(list()["left"]["trials"], 0);
    let none = place.study(&["list", "--output", "none.jsonl"]).assert().code(125);
    none.stderr(contains("cannot read none.jsonl"));
    place.study(&["run", "D2", "--repetitions", "0"]).assert().code(125);
}

#[test]
fn a_claim_that_fails_is_status_1_and_json_says_why() {
    let place = Place::new("");
    let text = TINY.replace("BEFORE", "").replace("\"2.0\"", "\"0.5\"");
    fs::write(place.path("tiny.toml"), text).unwrap();
    let output = place.study(&["run", "tiny.toml", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let claim = &json["experiments"][0]["claims"][0];
    assert_eq!(claim["verdict"], "not-reproduced");
    assert_eq!(claim["values"][0][1]["interval"], serde_json::json!([0.5, 0.5]));
    assert!(json["host"]["noise"].is_number());
}

#[test]
fn what_is_missing_here_is_never_a_pass() {
    let place = Place::new("numapilot lab run -m no-such-machine -- true &&");
    let run = place.study(&["run", "tiny.toml"]).assert().success();
    run.stdout(contains("not run here").and(contains("no-such-machine")));
    assert_eq!(place.trials(), 2, "{}", place.results());
}

#[test]
fn a_kill_loses_the_running_trial_and_nothing_else() {
    let place = Place::new("test $(wc -l < numapilot-study.jsonl) -lt 5 || sleep 60;");
    let binary = assert_cmd::cargo::cargo_bin("numapilot");
    let mut child = std::process::Command::new(binary)
        .args(["study", "run", "tiny.toml"])
        .current_dir(place.0.path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // The file has the host, the experiment and three trials; the fourth trial hangs.
    let deadline = Instant::now() + Duration::from_secs(120);
    let lines =
        || fs::read_to_string(place.path("numapilot-study.jsonl")).map_or(0, |t| t.lines().count());
    while lines() < 5 {
        assert!(Instant::now() < deadline, "no results came");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.trials(), 3);
    let text = TINY.replace("BEFORE", "test $(wc -l < numapilot-study.jsonl) -lt 5 || true;");
    fs::write(place.path("tiny.toml"), text).unwrap();
    // A changed command makes a different trial: only results of that command count.
    place.study(&["run", "tiny.toml", "--resume"]).assert().success();
    assert_eq!(place.trials(), 3 + 6);
}

#[test]
fn a_signal_keeps_what_is_there_and_is_in_the_status() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let place = Place::new(&format!("kill -{signal} $(ps -o ppid= -p $$); sleep 60;"));
        let run = place.study(&["run", "tiny.toml"]).timeout(Duration::from_secs(120)).assert();
        run.code(status).stdout(contains("not reached: T1; go on with --resume"));
        assert_eq!(place.trials(), 0);
    }
}

/// A shell command that waits up to a minute for a file.
fn wait_for(file: &str) -> String {
    format!("for i in $(seq 600); do test -e {file} && break; sleep 0.1; done;")
}

#[test]
fn ctrl_c_ends_all_trials_of_emulated_machines() {
    // Both trials write their process ID. When both have, one of them sends the interrupt.
    let both = format!("{} {}", wait_for("1.0"), wait_for("2.0"));
    let types = "test {kind} = 1.0 || kill -INT $(ps -o ppid= -p $$)";
    let place = Place::new(&format!("echo $$ > {{kind}}; {both} {types}; sleep 1000;"));
    place.is_emulated();
    let mut run = place.study(&["run", "tiny.toml", "--jobs", "2"]);
    let run = run.timeout(Duration::from_secs(120)).assert().code(130);
    run.stdout(contains("not reached: T1; go on with --resume"));
    assert_eq!(place.trials(), 0);
    for name in ["1.0", "2.0"] {
        let pid = fs::read_to_string(place.path(name)).unwrap();
        let process = PathBuf::from("/proc").join(pid.trim());
        wait_until(&format!("{name} is still there"), || !process.exists());
    }
}

#[test]
fn a_kill_loses_what_runs_and_keeps_what_ended_beside_it() {
    let slow = format!("test {{kind}} = 1.0 || {{ {} }};", wait_for("go"));
    let place = Place::new(&slow);
    place.is_emulated();
    let binary = assert_cmd::cargo::cargo_bin("numapilot");
    let mut child = std::process::Command::new(binary)
        .args(["study", "run", "tiny.toml", "--jobs", "2"])
        .current_dir(place.0.path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(50);
    // All rounds of one cell end while the first round of the other one runs.
    while !place.path("numapilot-study.jsonl").exists() || place.trials() < 3 {
        assert!(Instant::now() < deadline, "no results came");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(place.trials(), 3);
    let run = place.study(&["run", "tiny.toml", "--resume", "--jobs", "2"]).assert().success();
    run.stdout(contains("2.00 to 2.00   reproduced"));
    assert_eq!(place.trials(), 6);
}

#[test]
fn what_does_not_exist_is_named() {
    let place = Place::new("");
    let error = |arguments: &[&str], text: &str| {
        place.study(arguments).assert().code(125).stderr(contains(text.to_owned()));
    };
    error(&["run", "Z9"], "there is no experiment 'Z9'; there are A1");
    error(&["run"], "required");
    error(&["run", "tiny.toml", "tiny.toml"], "two experiments T1");
    error(&["run", "tiny.toml", "--output", "/dev/null"], "not a regular file");
    error(&["run", "tiny.toml", "--jobs", "0"], "--jobs");
    fs::write(place.path("tiny.toml"), "id = 3").unwrap();
    error(&["run", "tiny.toml"], "tiny.toml is not an experiment");
    error(&["run", "/dev/zero"], "more than 268435456 bytes");
    error(&["list", "--output", "/dev/zero"], "more than 268435456 bytes");
}

#[test]
fn a_damaged_study_of_the_lab_says_where() {
    let place = Place::new("");
    fs::write(place.path("s.toml"), "title = 3").unwrap();
    place
        .study(&["lab", "s.toml"])
        .assert()
        .code(125)
        .stderr(contains("cannot use s.toml: the study is damaged: line 1: "));
    let unknown = "the study has no run 'x'; it has chase-a";
    place.study(&["lab", "--only", "x"]).assert().code(125).stderr(contains(unknown));
}

#[test]
fn kept_runs_of_the_lab_are_judged_again_and_a_miss_is_a_failure() {
    let place = Place::new("");
    fs::write(place.path("r-counted.json"), r#"{"regions": [{"name": "all", "v": 95.5}]}"#)
        .unwrap();
    fs::write(place.path("r-printed.txt"), "").unwrap();
    let study = |expected: f64, more: &[&str]| {
        let text = format!(
            "title = 'T'\nsource = 'S'\n[[runs]]\nname = 'r'\nmachine = 'machine-a'\ncommand = []\n\
             [[figures]]\nclaim = 'A'\nname = 'f'\nvalue = {{ run = 'r', field = 'v' }}\n\
             expected = {expected:.1}\ntolerance = 0.03\n"
        );
        fs::write(place.path("s.toml"), text).unwrap();
        place.study(&[&["lab", "s.toml", "--keep", "."], more].concat()).assert()
    };
    study(95.0, &[]).success().stdout(contains("95.00  95.50  reproduced"));
    study(90.0, &[]).code(1).stdout(contains("not reproduced"));
    study(90.0, &["--json"]).code(1).stdout(contains("\"not-reproduced\""));
    let svg = study(95.0, &["--svg", "x.svg"]);
    svg.code(125).stderr(contains("no curve to draw"));
    let errors = |more: &[&str]| {
        let text = fs::read_to_string(place.path("s.toml")).unwrap();
        fs::write(place.path("e.toml"), format!("errors = true\n{text}")).unwrap();
        place.study(&[&["lab", "e.toml", "--keep", "."], more].concat()).assert().success()
    };
    errors(&["--markdown", "--svg", "x.svg"])
        .stdout(contains("| A | f | 95.00 | 95.50 | +1 % |  |"))
        .stdout(contains("| all | 1 | 1 % | 1 % | 1 % | 1 % | 1 | 1 | 1 |"));
    assert!(fs::read_to_string(place.path("x.svg")).unwrap().contains("all (1)"));
    errors(&["--json"]).stdout(contains("\"within_10\": 1"));
}

#[test]
fn numbers_are_written_as_parquet() {
    let place = Place::new("");
    place.study(&["run", "tiny.toml", "--parquet", "p.parquet"]).assert().success();
    let rows = numapilot_trials::read(&place.path("p.parquet")).unwrap();
    assert_eq!(rows.len(), 6);
    for row in &rows {
        let expected = match row.plan.as_str() {
            "kind=fast" => 1.0,
            "kind=slow" => 2.0,
            other => panic!("{other}"),
        };
        assert_eq!((row.value, row.outcome.as_str()), (Some(expected), "ok"));
        assert_eq!((row.source.metric.as_str(), row.phase.as_str()), ("T1 seconds", "study"));
        assert!(row.source.topology.is_some() && row.round < 3);
    }
    // What is refused is refused before anything runs.
    place
        .study(&["run", "tiny.toml", "--parquet", "numapilot-study.jsonl"])
        .assert()
        .code(125)
        .stderr(contains("name the same file"));
}

/// With quantum=2, `slow` takes four times as long as `fast`: the paper's direction, another size.
const DEPENDS: &str = r#"test \"$NUMAPILOT_LAB_VARY\" != quantum=2 -o {kind} = 1.0 || { echo '{\"seconds\": 4.0}'; exit; };"#;

#[test]
fn a_verdict_that_depends_on_the_model_is_marked_as_fragile() {
    let place = Place::new(DEPENDS);
    place.is_emulated();
    let run = |more: &[&str]| {
        place.study(&[&["run", "tiny.toml", "--output", "r.jsonl"], more].concat()).assert()
    };
    run(&[]).success();
    let text = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let report = || {
        place.study(&["report", "r.jsonl", "--output", "page.html"]).assert().success();
        text("page.html")
    };
    assert!(!report().contains("fragile:") && !report().contains("Repeated with half"));
    let varied = run(&["--resume", "--vary", "quantum=0.5,memory-level-parallelism=2"]).success();
    varied.stdout(contains("Slow against fast, with quantum=0.5").and(contains("reproduced")));
    assert!(report().contains("the same under 2 variations of the model"));
    let varied = run(&["--resume", "--vary", "quantum=2"]).success();
    varied
        .stdout(contains("T1  Slow against fast, with quantum=2").and(contains("direction only")));
    let page = report();
    assert!(page.contains("fragile: direction only with quantum=2, of 3 variations of the model"));
    assert!(page.contains("states: 1 comparison. The verdict changes in 1, marked"), "{page}");
    // The experiment as it is has its own trials and its own verdict; its definition is there once.
    let lines = text("r.jsonl");
    assert_eq!(lines.lines().filter(|line| line.starts_with("{\"experiment\"")).count(), 1);
    assert_eq!(lines.lines().filter(|line| line.starts_with("{\"trial\"")).count(), 24);
    assert!(page.contains("T1 Slow against fast</h2>"), "{page}");
}

#[test]
fn a_variation_that_means_nothing_is_refused() {
    let place = Place::new("");
    let refused = |vary: &str| {
        let run = place.study(&["run", "tiny.toml", "--vary", vary]).assert().code(125);
        String::from_utf8(run.get_output().stderr.clone()).unwrap()
    };
    let on_host = refused("quantum=2");
    assert!(on_host.contains("none of the experiments depends on it"), "{on_host}");
    let unknown = refused("latency=2");
    assert!(unknown.contains("'latency' is not a free parameter of the model"), "{unknown}");
    place.is_emulated();
    assert!(refused("time-scale=2").contains("with the guest's clocks as they are"));
}
