//! Tests the reader on every recorded machine.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod common;

use std::fmt::Write;

use numapilot_topology::{Machine, Recording, read};

#[test]
fn every_machine_is_what_it_was() {
    for (name, recording) in common::corpus() {
        let machine = machine(&recording);
        insta::assert_snapshot!(name, summary(&machine));
    }
}

/// A recording reads the same from memory as from its unpacked files.
#[test]
fn a_recording_need_not_be_unpacked() {
    for (name, recording) in common::corpus() {
        assert_eq!(recording.machine().unwrap(), machine(&recording), "{name}");
    }
}

/// The synthesized files of a machine read back as the same machine.
#[test]
fn a_machine_survives_being_written_and_read() {
    for (name, recording) in common::corpus() {
        let mut machine = machine(&recording);
        machine.figures = Default::default();
        let again = self::machine(&Recording::synthesize(&machine));
        // Arm cores are identified by numbers, which synthesis cannot derive from a name.
        assert_eq!(Machine { processor: machine.processor.clone(), ..again }, machine, "{name}");
    }
}

/// A recording holds every file that the reader uses.
#[test]
fn a_recording_of_a_recording_is_the_same() {
    for (name, recording) in common::corpus() {
        let directory = common::unpacked(&recording);
        let again = Recording::record(directory.path()).unwrap();
        let (again, before) = (again.to_string(), recording.with_comment("").to_string());
        let changed = again.lines().zip(before.lines()).find(|(a, b)| a != b);
        assert_eq!(changed, None, "{name}");
        assert_eq!(again.len(), before.len(), "{name}");
    }
}

#[test]
fn this_machine_survives_being_recorded() {
    let recording = Recording::record("/".as_ref()).unwrap();
    let mut here = read("/".as_ref()).unwrap();
    let mut there = machine(&recording.to_string().parse().unwrap());
    // Free memory changes all the time.
    for node in here.nodes.iter_mut().chain(&mut there.nodes) {
        node.free_bytes = None;
        node.huge_pages.iter_mut().for_each(|pool| pool.free = 0);
    }
    assert_eq!(there, here);
}

fn machine(recording: &Recording) -> Machine {
    read(common::unpacked(recording).path()).unwrap()
}

/// All of a machine: lists as the kernel writes them, equal caches counted.
fn summary(machine: &Machine) -> String {
    let mut text = format!("{} ({:?})\n", machine.name, machine.processor);
    for node in &machine.nodes {
        writeln!(text, "{node:?}").unwrap();
    }
    for cpu in &machine.cpus {
        let known = |id: Option<u32>| id.map_or("?".to_owned(), |id| id.to_string());
        let (core, package) = (known(cpu.core), known(cpu.package));
        let node = known(cpu.node.map(Into::into));
        let state = if cpu.online { "" } else { " offline" };
        let (id, siblings) = (cpu.id, &cpu.siblings);
        writeln!(text, "CPU {id}: node {node} package {package} core {core} {siblings:?}{state}")
            .unwrap();
    }
    for alike in machine.caches.chunk_by(|a, b| (a.level, a.kind) == (b.level, b.kind)) {
        writeln!(text, "{} x {:?}", alike.len(), alike[0]).unwrap();
        let shared: Vec<String> = alike.iter().map(|cache| cache.cpus.to_string()).collect();
        writeln!(text, "  {}", shared.join(" | ")).unwrap();
    }
    for row in &machine.distances {
        writeln!(text, "distance {row:?}").unwrap();
    }
    writeln!(text, "{:?}\n{:?}", machine.figures, machine.allowed).unwrap();
    text
}
