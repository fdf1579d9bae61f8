//! Tests of `numapilot balance` as a user runs it. This machine may have one node: moving pages is
//! tested on simulated memory, beside the code.
#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;

use assert_cmd::Command;
use numapilot_balance::adaptive::Settings;
use numapilot_balance::trace::{Header, Recorded, Writer};
use numapilot_balance::{Access, Evidence, Nodes, Order, Page, Setup, Why};
use numapilot_topology::{Machine, NodeId};
use predicates::prelude::*;
use serde_json::Value;

fn balance(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.arg("balance").args(arguments);
    command
}

/// Whether this machine has more than one node to choose from.
fn many_nodes() -> bool {
    let machine = numapilot_topology::read("/".as_ref()).unwrap();
    machine.memory_nodes().intersection(&machine.allowed.nodes).len() > 1
}

#[test]
fn the_status_of_the_program_is_passed_through() {
    for status in [0, 7] {
        let script = format!("echo out; echo err >&2; exit {status}");
        let assert = balance(&["--", "sh", "-c", &script]).assert().code(status).stdout("out\n");
        if !many_nodes() {
            assert.stderr(
                predicate::str::contains("there is nothing to balance; the command runs unchanged")
                    .and(predicate::str::ends_with("err\n")),
            );
        }
    }
    balance(&["--", "sh", "-c", "kill -9 $$"]).assert().failure();
    // As for run, stat, tune and top, `--` is optional.
    balance(&["sh", "-c", "echo $0; exit 7", "--json"]).assert().code(7).stdout("--json\n");
    balance(&["--", "/nonexistent/program"]).assert().code(127);
    balance(&["--", "/etc/passwd"]).assert().code(126);
}

#[test]
fn processes_that_are_not_there_are_named() {
    balance(&["-p", "2147483647"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("process 2147483647 does not exist"));
    balance(&["-p", "0"]).assert().code(125);
    balance(&[]).assert().code(125).stderr(predicate::str::contains("COMMAND"));
    balance(&["--interval", "never", "--", "true"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("is not a duration"));
    balance(&["-I", "1 parsec", "--", "true"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("write 500 (milliseconds), 500ms or 2s"));
    balance(&["-I", "500", "--", "true"]).assert().code(0);
}

#[test]
fn the_files_are_checked_and_written_also_where_nothing_is_balanced() {
    for option in ["-o", "--record"] {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("ran");
        balance(&[option, "/nonexistent/x", "--", "touch", marker.to_str().unwrap()])
            .assert()
            .code(125)
            .stderr(predicate::str::contains("cannot write /nonexistent/x: No such file"));
        assert!(!marker.exists(), "the program ran");
    }
    let directory = tempfile::tempdir().unwrap();
    let name = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (output, record) = (name("output"), name("trace"));
    balance(&["-o", &output, "--record", &output, "true"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("name the same file"));
    for target in [vec!["true".to_owned()], vec!["-p".to_owned()]] {
        fs::write(&output, "of an earlier run\n").unwrap();
        fs::write(&record, "of an earlier run\n").unwrap();
        let mut sleeper = None;
        let mut command = balance(&["-o", &output, "--record", &record]);
        command.args(&target);
        if target == ["-p"] {
            if many_nodes() {
                println!("skipped: this machine has more than one node, so -p does not end");
                return;
            }
            let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            command.arg(child.id().to_string());
            sleeper = Some(child);
        }
        command.assert().success();
        if let Some(mut sleeper) = sleeper {
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
        }
        assert_eq!(fs::read_to_string(&output).unwrap(), "");
        balance(&["replay", &record])
            .assert()
            .success()
            .stderr(predicate::str::contains("0 intervals, all with the orders of the recording"));
    }
}

/// A trace of one process whose 60 pages on node 0 are used from node 1. Of its two intervals, the
/// second moves the pages; `orders` replaces the orders it gives.
fn trace(orders: Vec<Order>) -> Vec<u8> {
    let setup = Setup::Default(Settings::default());
    let header = Header { nodes: Nodes::of(&Machine::uniform(2, 1)), setup };
    let access = |page| Access {
        page: Page(page),
        from: NodeId(1),
        home: NodeId(0),
        write: true,
        huge: false,
        latency_ns: None,
    };
    let evidence = Evidence {
        duration_ns: 1_000_000_000,
        accesses: (0..600).map(|at| access(at / 10)).collect(),
        accesses_per_sample: Some(10_000.0),
        usable: [NodeId(0), NodeId(1)].into_iter().collect(),
        ..Evidence::default()
    };
    let mut bytes = Vec::new();
    let mut writer = Writer::begin(&mut bytes, &header).unwrap();
    for (at, orders) in [(1, Vec::new()), (2, orders)] {
        let (evidence, now_ns) = (evidence.clone(), at * 1_000_000_000);
        writer.add(&Recorded { pid: 42, now_ns, evidence, orders, done: None }).unwrap();
    }
    writer.end().unwrap();
    bytes
}

fn moves() -> Vec<Order> {
    let order = |page| Order { start: Page(page), pages: 1, to: NodeId(1), why: Why::Collocate };
    (0..60).map(order).collect()
}

#[test]
fn a_trace_is_decided_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    let name = file.to_str().unwrap();
    fs::write(&file, trace(moves())).unwrap();
    balance(&["replay", name]).assert().success().stderr(predicate::str::contains(
        "2.0 s, process 42: moving; 600 samples, LAR 0 %, imbalance 141 %, collocate 60 pages",
    ));
    let output = balance(&["replay", "--json", name]).assert().success().get_output().clone();
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[1]["pid"], &lines[1]["decision"]["state"]), (&42.into(), &"moving".into()));
    assert_eq!(lines[1]["metrics"]["local_access_ratio"], 0.0);
    // Neighbours are one order.
    assert_eq!(
        lines[1]["orders"],
        serde_json::json!([{"address": 0, "pages": 60, "node": 1, "why": "collocate"}])
    );
    assert_eq!(lines[1]["done"], Value::Null);
}

#[test]
fn traces_that_cannot_be_replayed_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    let name = file.to_str().unwrap();
    let fails = |bytes: &[u8], why: &str| {
        fs::write(&file, bytes).unwrap();
        balance(&["replay", name]).assert().code(125).stderr(predicate::str::contains(why));
    };
    let whole = trace(moves());
    fails(&whole[..whole.len() - 9], "ends early, after 1 whole intervals");
    fails(&whole[..whole.len() - 4], "ends early, after 2 whole intervals");
    fails(b"", "this is not a trace");
    fails(b"something else altogether", "this is not a trace");
    fails(&trace(moves()[1..].to_vec()), "interval 2 of process 42: the orders are not those");
    balance(&["replay", "/nonexistent/trace"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("/nonexistent/trace"));
}
