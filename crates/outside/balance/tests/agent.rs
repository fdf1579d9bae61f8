//! Tests with a real program that loads the agent, and with one that does not.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use numapilot_balance::{Agents, Memory, Page, Process, Region};
use numapilot_topology::{NodeId, NodeSet};

/// The library, built as for a release.
fn library() -> PathBuf {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "-p", "numapilot-bind-preload"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "the library does not build");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("debug/libnumapilot_bind.so")
}

const PROGRAM: [&str; 3] = ["sh", "-c", "echo; read line"];

fn program(words: &[&str], agents: &Agents, library: Option<&Path>) -> Child {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("NUMAPILOT_AGENT", agents.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let mut child = command.spawn().unwrap();
    // The agent is loaded once the program has printed something.
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    child
}

/// A program, the memory of its process, and the region in which its heap begins.
fn with_heap(library: Option<&Path>) -> (Child, Process, Region) {
    let agents = Rc::new(Agents::new().unwrap());
    let child = program(&PROGRAM, &agents, library);
    let start = u64::from_str_radix(heap(child.id(), "maps").split('-').next().unwrap(), 16);
    let process = Process::open(child.id().cast_signed()).unwrap();
    (child, process.with_agent(Some(agents)), Page::of(start.unwrap()).region())
}

/// The line of the heap in a file of `/proc/PID`.
fn heap(pid: u32, file: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    text.lines().find(|line| line.contains("heap")).unwrap().to_owned()
}

#[test]
fn memory_is_spread_when_a_program_carries_the_agent() {
    let library = library();
    let nodes: NodeSet = [NodeId(0)].into_iter().collect();
    for carries in [true, false] {
        let (mut child, mut process, region) = with_heap(carries.then_some(library.as_path()));
        let bytes = process.first_touch(&[region], &nodes);
        let policy = heap(child.id(), "numa_maps").split(' ').nth(1).unwrap().to_owned();
        if carries {
            assert!(bytes > 0 && policy == "interleave:0", "{bytes} {policy}");
            assert!(process.first_touch(&[region], &NodeSet::new()) > 0);
            let policy = heap(child.id(), "numa_maps");
            assert!(policy.contains(" default "), "{policy}");
        } else {
            assert_eq!((bytes, policy.as_str()), (0, "default"));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

#[test]
fn split_memory_gets_no_huge_pages_again() {
    let library = library();
    for carries in [true, false] {
        let (mut child, mut process, region) = with_heap(carries.then_some(library.as_path()));
        process.split(&[region]);
        let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", child.id())).unwrap();
        let (_, from_heap) = smaps.split_once("[heap]").unwrap();
        let flags = from_heap.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
        assert_eq!(flags.contains(" nh"), carries, "{flags}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// Otherwise the agent would take up a CPU.
#[test]
fn an_agent_that_may_not_wait_leaves_off() {
    let filter = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_wait");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/no_wait.c");
    let compiler =
        Command::new("cc").args(["-Wall", "-Werror", "-o"]).arg(&filter).arg(source).status();
    if !compiler.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler (cc)");
        return;
    }
    let agents = Agents::new().unwrap();
    let words = [&[filter.to_str().unwrap()], &PROGRAM[..]].concat();
    let mut child = program(&words, &agents, Some(&library()));
    let tasks = format!("/proc/{}/task", child.id());
    let threads = || std::fs::read_dir(&tasks).unwrap().count();
    let until = Instant::now() + Duration::from_secs(60);
    while threads() > 1 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(threads(), 1);
    drop(child.stdin.take());
    child.wait().unwrap();
}
