//! A real program that carries the agent, and one that does not.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use numapilot_balance::{Agents, Memory, Page, Process};
use numapilot_topology::{NodeId, NodeSet};

/// The library, built as it is shipped.
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

fn program(agents: &Agents, library: Option<&Path>) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "echo; read line"]).env("NUMAPILOT_AGENT", agents.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let mut child = command.spawn().unwrap();
    // It is loaded when it has said something.
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    child
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
        let agents = Rc::new(Agents::new().unwrap());
        let mut child = program(&agents, carries.then_some(library.as_path()));
        let start = u64::from_str_radix(heap(child.id(), "maps").split('-').next().unwrap(), 16);
        let region = Page::of(start.unwrap()).region();
        let process = Process::open(child.id().cast_signed()).unwrap();
        let mut process = process.with_agent(Some(agents));
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
