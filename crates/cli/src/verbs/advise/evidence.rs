//! Turns what was measured, and what can be varied here, into the figures that the rules use.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use numapilot_advise::{CodeShares, Run};
use numapilot_observe::code::{CodeFile, CodeProfile};
use numapilot_place::Plan;
use numapilot_place::allocators::AllocatorCode;
use numapilot_topology::{CpuId, Machine, NodeId};
use numapilot_tune::run::{Judge, Limits, Metric, Program, Runner};
use numapilot_tune::space::{Facts, Space};

use super::measure::Measured;

/// The figures of a run, for a program that is started with `command`.
pub fn evidence(measured: &Measured, machine: &Machine, command: &[OsString]) -> Run {
    let facts = Facts::new(machine, Path::new("/"));
    let (space, machine_wide) = space(&facts, machine, command);
    let nodes = &measured.observation.nodes;
    let latencies = machine.figures.latency_ns.iter().enumerate();
    let local = latencies.filter_map(|(node, row)| row.get(node).copied().flatten());
    Run {
        figures: measured.observation.figures().clone(),
        node_bytes: nodes.iter().filter_map(|n| Some((n.id, n.peak_memory_bytes?))).collect(),
        code: measured.code.as_ref().map(|code| shares(code, machine)).map_err(String::clone),
        malloc: measured.malloc.as_ref().map(|(_, malloc)| malloc.name.clone()),
        fixed_malloc: measured.malloc.as_ref().and_then(|(program, malloc)| {
            let reason = malloc.fixed.as_ref()?;
            Some(format!("{program}, which used the most CPU time: {reason}"))
        }),
        memory_nodes: machine.memory_nodes().intersection(&machine.allowed.nodes).iter().collect(),
        cpus: machine.allowed.cpus.intersection(&machine.online_cpus()).len(),
        local_latency_seconds: local.reduce(f64::min).map(|ns| ns * 1e-9),
        facts,
        space,
        machine_wide,
    }
}

/// The levels that can be applied to a program, and the plans that change a setting of the whole
/// machine.
fn space(facts: &Facts, machine: &Machine, command: &[OsString]) -> (Space, Vec<Plan>) {
    let program = Program {
        command: command.to_vec(),
        stdin: None,
        prepare: None,
        via: None,
        cleanup: None,
        service: None,
        timeout: None,
        progress: None,
    };
    let never = AtomicBool::new(false);
    let judge = Judge::new(Metric::WallTime, None, Limits::default());
    let runner = Runner::new(machine, program, judge, &never);
    let machine_wide = RefCell::new(Vec::new());
    let applies = |plan: &Plan| {
        if !runner.applies(plan)?.is_empty() {
            machine_wide.borrow_mut().push(plan.clone());
        }
        Ok(())
    };
    let space = Space::new(facts, &[], Vec::new(), applies);
    (space, machine_wide.into_inner())
}

/// What the samples show.
fn shares(code: &CodeProfile, machine: &Machine) -> CodeShares {
    let mut files: BTreeMap<&CodeFile, Option<AllocatorCode>> = BTreeMap::new();
    let mut shares = CodeShares { unknown: code.unmapped + code.lost, ..CodeShares::default() };
    let mut allocating = BTreeSet::new();
    for (place, count) in &code.places {
        let file = &place.file;
        // Code without a file (of the kernel, or made by a JIT compiler) is no malloc.
        if file.inode == 0 {
            continue;
        }
        let parts =
            files.entry(file).or_insert_with(|| AllocatorCode::of(&file.path, file.inode).ok());
        match parts {
            Some(parts) if parts.contains(place.offset) => {
                shares.allocator += count;
                allocating.insert(place.tid);
            }
            Some(_) => {}
            None => shares.unknown += count,
        }
    }
    let mut threads: BTreeMap<i32, BTreeSet<NodeId>> = BTreeMap::new();
    for ((_, tid, cpu), count) in &code.cpus {
        let nodes = threads.entry(*tid).or_default();
        if let Some(node) = node_of(machine, *cpu) {
            nodes.insert(node);
            *shares.nodes.entry(node).or_default() += count;
        }
    }
    for nodes in threads.values().filter(|nodes| nodes.len() == 1) {
        for node in nodes {
            *shares.node_threads.entry(*node).or_default() += 1;
        }
    }
    shares.samples = code.samples();
    shares.threads = threads.len();
    shares.allocating_threads = allocating.len();
    shares.wandering_threads = threads.values().filter(|nodes| nodes.len() > 1).count();
    shares
}

fn node_of(machine: &Machine, cpu: CpuId) -> Option<NodeId> {
    machine.cpu(cpu)?.node
}
