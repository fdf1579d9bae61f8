//! Accesses of known cost on an emulated machine, which run in the guest to validate the timing
//! model. Each part is a region of interest.
//!
//! Method: as in `topo --measure` (dependent loads through one random cycle of lines, and reads in
//! order), but of a fixed length and measured in simulated time.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Barrier, Mutex, PoisonError, RwLock};
use std::{io, thread};

use numapilot_sys::mapping::Mapping;
use numapilot_sys::mempolicy::{self, Mode};
use numapilot_topology::measure::{Chase, write_cycle};
use numapilot_topology::{CpuId, CpuSet, Machine, NodeId, NodeSet};
use thiserror::Error;

/// Why a part cannot run.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The node does not exist, or lacks a CPU that the part needs.
    #[error("node {node} {what}; `numapilot topo` lists the nodes of this machine")]
    Node {
        /// The node.
        node: NodeId,
        /// The problem.
        what: &'static str,
    },
    /// The kernel refused memory or a thread.
    #[error("cannot {what}: {cause}; give the machine more memory per node")]
    System {
        /// The operation.
        what: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ProbeError {
    move |cause| ProbeError::System { what, cause }
}

/// Begins and ends regions of interest by name.
pub trait Marks: Sync {
    /// Begins a region.
    fn begin(&self, name: &str);
    /// Ends a region.
    fn end(&self, name: &str);
}

/// Runs parts on the machine that it is on.
pub struct Probe<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Receives the begin and end of regions.
    pub marks: &'a dyn Marks,
    /// Size of the memory that each part accesses.
    pub bytes: usize,
}

impl Probe<'_> {
    /// One CPU of `from` follows a cycle through memory of `to`: region `chase-FROM-TO`.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn chase(&self, from: NodeId, to: NodeId, loads: usize) -> Result<(), ProbeError> {
        let cpu = self.cpus(from)?[0];
        let mut memory = self.memory(Mode::Bind, &[to].into_iter().collect())?;
        write_cycle(memory.words_mut(), u64::from(to.0) + 1);
        let name = format!("chase-{from}-{to}");
        self.together(&[cpu], &name, |_| {
            let mut chase = Chase::new(memory.words(), 0);
            chase.follow(loads);
            black_box(chase.at());
        })
    }

    /// All CPUs of `from` read memory of `to` in order, each its own part, with `pause` iterations
    /// of an empty loop after every line: region NAME.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn read(&self, name: &str, from: NodeId, to: NodeId, pause: u32) -> Result<(), ProbeError> {
        let cpus = self.cpus(from)?;
        let mut memory = self.memory(Mode::Bind, &[to].into_iter().collect())?;
        memory.words_mut().fill(1);
        let words = memory.words();
        let part = (words.len() / cpus.len()).max(1);
        self.together(&cpus, name, |i| {
            let part = words.chunks(part).nth(i).unwrap_or_default();
            for line in part.chunks(LINE_WORDS) {
                black_box(line.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
                (0..pause).for_each(|_| spin_loop_once());
            }
        })
    }

    /// One CPU of the first node touches memory under a policy, then reads one line of each page:
    /// region NAME. Returns the pages by node, as the kernel reports them.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn pages(
        &self,
        name: &str,
        mode: Mode,
        nodes: &NodeSet,
    ) -> Result<BTreeMap<u32, u64>, ProbeError> {
        let first = self
            .machine
            .cpu_nodes()
            .first()
            .ok_or(ProbeError::Node { node: NodeId(0), what: "has no CPU" })?;
        let cpu = self.cpus(first)?[0];
        let mut memory = self.memory(mode, nodes)?;
        memory.advise(libc::MADV_NOHUGEPAGE).map_err(system("forbid huge pages"))?;
        // First touch places pages on the node of this CPU.
        let touched = Mutex::new(&mut memory);
        self.together(&[cpu], &format!("{name}-touch"), |_| {
            if let Ok(mut memory) = touched.lock() {
                memory.as_mut_slice().iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
            }
        })?;
        let start = memory.as_ptr() as usize;
        let pages: Vec<usize> = (start..start + memory.len()).step_by(PAGE).collect();
        let at = mempolicy::move_pages(0, &pages, None, 0).map_err(system("look up pages"))?;
        // These lines are not in any cache after the touch.
        self.together(&[cpu], name, |_| {
            let lines = memory.as_slice().iter().skip(PAGE / 2).step_by(PAGE);
            black_box(lines.fold(0u64, |sum, byte| sum + u64::from(*byte)));
        })?;
        let mut counts = BTreeMap::new();
        for node in at.into_iter().filter_map(|node| u32::try_from(node).ok()) {
            *counts.entry(node).or_default() += 1;
        }
        Ok(counts)
    }

    fn cpus(&self, node: NodeId) -> Result<Vec<CpuId>, ProbeError> {
        let index = self.machine.node_index(node);
        let cpus = index.map(|i| self.machine.nodes[i].cpus.iter().collect::<Vec<_>>());
        let what = if cpus.is_none() { "is not there" } else { "has no CPU" };
        cpus.filter(|cpus| !cpus.is_empty()).ok_or(ProbeError::Node { node, what })
    }

    fn memory(&self, mode: Mode, nodes: &NodeSet) -> Result<Mapping, ProbeError> {
        let mut memory = Mapping::anonymous(self.bytes).map_err(system("map memory"))?;
        mempolicy::bind(&memory, mode, nodes.as_words(), 0).map_err(system("place memory"))?;
        memory.advise(libc::MADV_HUGEPAGE).map_err(system("ask for huge pages"))?;
        Ok(memory)
    }

    /// Runs `work` on all CPUs at once, in one region.
    fn together(
        &self,
        cpus: &[CpuId],
        name: &str,
        work: impl Fn(usize) + Sync,
    ) -> Result<(), ProbeError> {
        let (begin, end) = (Barrier::new(cpus.len()), Barrier::new(cpus.len()));
        // The barrier opens once all threads have arrived.
        let gate = RwLock::new(false);
        let run = |i: usize, cpu: CpuId| {
            if !*gate.read().unwrap_or_else(PoisonError::into_inner) {
                return;
            }
            let set: CpuSet = [cpu].into_iter().collect();
            // A failed pinning shows in the figures, which are then those of another node.
            let _ = numapilot_sys::affinity::set(0, set.as_words());
            if i == 0 {
                self.marks.begin(name);
            }
            begin.wait();
            work(i);
            end.wait();
            if i == 0 {
                self.marks.end(name);
            }
        };
        thread::scope(|scope| {
            let mut open = gate.write().unwrap_or_else(PoisonError::into_inner);
            let threads: io::Result<Vec<_>> = cpus
                .iter()
                .enumerate()
                .map(|(i, cpu)| {
                    let run = &run;
                    thread::Builder::new().spawn_scoped(scope, move || run(i, *cpu))
                })
                .collect();
            *open = threads.is_ok();
            drop(open);
            let died = threads?.into_iter().any(|thread| thread.join().is_err());
            if died { Err(io::Error::other("a thread died")) } else { Ok(()) }
        })
        .map_err(system("run threads"))
    }
}

const LINE_WORDS: usize = 8;
const PAGE: usize = 4096;

/// An iteration of an empty loop that the compiler keeps.
#[inline]
fn spin_loop_once() {
    black_box(());
}
