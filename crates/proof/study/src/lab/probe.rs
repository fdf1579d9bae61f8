//! Accesses of known cost on an emulated machine, which run in the guest to validate the timing
//! model. Each part is a region of interest.
//!
//! Method: as in `topo --measure` (dependent loads through one random cycle of lines, and reads in
//! order), but of a fixed length and measured in simulated time.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::{Barrier, Mutex, PoisonError, RwLock};
use std::{fmt, io, thread};

use numapilot_sys::mapping::Mapping;
use numapilot_sys::mempolicy::{self, Mode};
use numapilot_sys::splitmix;
use numapilot_topology::measure::{Chase, LINE_BYTES, write_cycle};
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

/// Where the arrays of [`Probe::triad`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each on the node of the CPU that uses it.
    Local,
    /// All on one node.
    Node(NodeId),
    /// The pages of each on all nodes in turn.
    Interleave,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Node(node) => write!(f, "{node}"),
            Self::Interleave => f.write_str("interleave"),
        }
    }
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "local" => Ok(Self::Local),
            "interleave" => Ok(Self::Interleave),
            _ => text.parse().map(|node| Self::Node(NodeId(node))).map_err(|_| {
                format!("'{text}' is not a placement: give local, interleave or a node")
            }),
        }
    }
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

    /// One CPU of `from` reads words of `to` at random; no address depends on a word that was read:
    /// region `random-FROM-TO`.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn random(&self, from: NodeId, to: NodeId, loads: usize) -> Result<(), ProbeError> {
        let cpu = self.cpus(from)?[0];
        let mut memory = self.memory(Mode::Bind, &[to].into_iter().collect())?;
        memory.words_mut().fill(1);
        let words = memory.words();
        self.together(&[cpu], &format!("random-{from}-{to}"), |_| {
            let (mut state, mut sum) = (0u64, 0u64);
            for _ in 0..loads {
                state = state.wrapping_add(splitmix::GAMMA);
                let product = u128::from(splitmix::mix(state)) * words.len() as u128;
                let index = usize::try_from(product >> 64).unwrap_or(0);
                sum = sum.wrapping_add(words.get(index).copied().unwrap_or(0));
            }
            black_box(sum);
        })
    }

    /// A CPU of `to` follows a cycle that a CPU of `from` has just written, in memory of `home`:
    /// region `transfer-FROM-TO-HOME`. Its lines are to be in the cache of the CPU that wrote them,
    /// so `bytes` must not exceed the cache.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn transfer(
        &self,
        from: NodeId,
        to: NodeId,
        home: NodeId,
        rounds: usize,
    ) -> Result<(), ProbeError> {
        let writer = self.cpus(from)?[0];
        let only = ProbeError::Node { node: to, what: "has only the CPU that writes" };
        let reader = self.cpus(to)?.into_iter().find(|cpu| *cpu != writer).ok_or(only)?;
        let mut memory = self.memory(Mode::Bind, &[home].into_iter().collect())?;
        let lines = memory.len() / LINE_BYTES;
        let name = format!("transfer-{from}-{to}-{home}");
        for _ in 0..rounds {
            let written = Mutex::new(&mut memory);
            self.together(&[writer], &format!("{name}-write"), |_| {
                if let Ok(mut memory) = written.lock() {
                    write_cycle(memory.words_mut(), 1);
                }
            })?;
            self.together(&[reader], &name, |_| {
                let mut chase = Chase::new(memory.words(), 0);
                chase.follow(lines);
                black_box(chase.at());
            })?;
        }
        Ok(())
    }

    /// The CPUs of `from` compute `a = b + 3 c` over arrays of their own (STREAM's triad): region
    /// `triad-PLACEMENT`. All arrays together have `bytes`.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn triad(&self, from: &NodeSet, placement: Placement) -> Result<(), ProbeError> {
        let mut cpus = Vec::new();
        let mut arrays = Vec::new();
        for node in from.iter() {
            let own = self.cpus(node)?;
            cpus.extend(own.iter().map(|cpu| (*cpu, node)));
        }
        let each = self.bytes / cpus.len().max(1);
        for (_, node) in &cpus {
            let (mode, nodes) = match placement {
                Placement::Local => (Mode::Bind, [*node].into_iter().collect()),
                Placement::Node(home) => (Mode::Bind, [home].into_iter().collect()),
                Placement::Interleave => (Mode::Interleave, self.machine.memory_nodes()),
            };
            let mut memory = Self::mapping(each, mode, &nodes)?;
            memory.words_mut().fill(1);
            arrays.push(Mutex::new(memory));
        }
        let cpus: Vec<CpuId> = cpus.into_iter().map(|(cpu, _)| cpu).collect();
        self.together(&cpus, &format!("triad-{placement}"), |i| {
            let Some(Ok(mut memory)) = arrays.get(i).map(Mutex::lock) else { return };
            let words = memory.words_mut();
            let array = words.len() / 3;
            let (a, operands) = words.split_at_mut(array);
            let (b, c) = operands.split_at(array);
            for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                *a = b.wrapping_add(c.wrapping_mul(3));
            }
        })
    }

    /// The first `most` CPUs of `from` read memory of `to` in order, each its own part, with `pause`
    /// iterations of an empty loop after every line: region NAME.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn read(
        &self,
        name: &str,
        from: NodeId,
        to: NodeId,
        most: usize,
        pause: u32,
    ) -> Result<(), ProbeError> {
        let mut cpus = self.cpus(from)?;
        cpus.truncate(most.max(1));
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
        Self::mapping(self.bytes, mode, nodes)
    }

    fn mapping(bytes: usize, mode: Mode, nodes: &NodeSet) -> Result<Mapping, ProbeError> {
        let mut memory = Mapping::anonymous(bytes).map_err(system("map memory"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_they_are_printed() {
        for text in ["local", "interleave", "7"] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), text);
        }
        assert!("near".parse::<Placement>().unwrap_err().contains("'near' is not a placement"));
    }
}
