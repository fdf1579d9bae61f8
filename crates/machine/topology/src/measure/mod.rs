//! Measures the machine: latency and bandwidth between all pairs of nodes, and latency under load.
//!
//! ```text
//!  memory of node j          threads on CPUs of node i
//!  [chase: one random cycle] <-- one CPU follows it            latency[i][j]
//!  [stream: plain words    ] <-- all CPUs read it              bandwidth[i][j]
//!                            <-- all but one read at a rate,
//!                                one follows the cycle         loaded latency of i = j
//! ```
//!
//! Latency is measured by dependent loads through a random cyclic permutation of cache lines, after
//! lat_mem_rd (McVoy, Staelin, lmbench, USENIX 1996). Bandwidth is measured by sequential reads of
//! all CPUs, after STREAM (McCalpin 1995), and bandwidth against latency after the Intel Memory
//! Latency Checker. The memory is far larger than the last-level cache and in huge pages where the
//! kernel provides them, so that neither caches nor page walks hide what is measured.

mod chase;
mod memory;
mod sample;
mod stream;

use std::cell::Cell;
use std::time::Duration;
use std::{io, thread};

use serde::Serialize;
use thiserror::Error;

pub use chase::{Chase, LINE_BYTES, write_cycle};
pub use memory::Placed;
pub use sample::Sample;

use self::memory::NodeMemory;
use crate::description::ByteSize;
use crate::{CpuId, CpuSet, Machine, Node, NodeId};

/// Settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory of each measured node for latency; bandwidth uses as much again. By default, eight
    /// times the last-level cache and at least 256 MiB.
    pub bytes: Option<u64>,
    /// Repetitions of every figure.
    pub repetitions: usize,
    /// Total time to aim for, without the time to fill the memory.
    pub budget: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { bytes: None, repetitions: 5, budget: Duration::from_secs(8) }
    }
}

/// The result of a measurement. Matrices are indexed as in [`Machine`]: row = CPUs of a node,
/// column = memory of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// Latency of one CPU on an otherwise idle machine.
    pub latency_ns: Vec<Vec<Option<Sample>>>,
    /// Read bandwidth of all CPUs of the node, in 10^9 bytes per second.
    pub bandwidth_gb_per_s: Vec<Vec<Option<Sample>>>,
    /// Latency under load, for nodes with at least two CPUs.
    pub loaded_latency: Vec<Loaded>,
    /// Share of the time in which the measuring threads had their CPUs. It is well below 1 when
    /// other programs ran; bandwidth is then too low.
    pub cpu_share: Option<f64>,
    /// How each node's memory was obtained; in the order of nodes.
    pub memory: Vec<Option<Placed>>,
    /// Figures that could not be measured, with the reasons.
    pub unsupported: Vec<Unsupported>,
}

/// Latency of a node's own memory while its other CPUs read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loaded {
    /// The node.
    pub node: NodeId,
    /// One point per rate of load, from idle to full speed.
    pub points: Vec<LoadedPoint>,
}

/// One rate of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LoadedPoint {
    /// Read rate of the other CPUs, in 10^9 bytes per second.
    pub gb_per_s: f64,
    /// Latency at that rate.
    pub latency_ns: Sample,
}

/// A figure that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// The figure: `"latency and bandwidth from node 1"`.
    pub what: String,
    /// The reason.
    pub reason: String,
}

/// Why nothing could be measured.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// This process may not run on any CPU of any node.
    #[error(
        "this process may not run on any CPU that belongs to a node; widen its cpuset or affinity"
    )]
    NoCpu,
    /// The requested size is too small.
    #[error(
        "{} is too little memory to measure with; take at least {}, four times the last-level \
         cache", ByteSize(*bytes), ByteSize(*least)
    )]
    TooSmall {
        /// The requested size.
        bytes: u64,
        /// The smallest useful size.
        least: u64,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}; raise the limit on processes (ulimit -u)")]
    Thread(#[from] io::Error),
}

/// Called at the beginning of each step with the steps done, the total number and a description.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize, &str);

/// Steps of load between idle and full speed.
const RATES: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
const MIB: u64 = 1 << 20;

/// Measures the machine that this process runs on. `machine` must be that machine, as
/// [`crate::read`] returns it for `/`.
///
/// # Errors
/// [`MeasureError`] when nothing can be measured. [`Measurement::unsupported`] lists single figures
/// that could not be measured.
pub fn measure(
    machine: &Machine,
    options: &Options,
    progress: Progress,
) -> Result<Measurement, MeasureError> {
    let cache = machine.caches.iter().filter_map(|c| c.size_bytes).max().unwrap_or(32 * MIB);
    let bytes = options.bytes.unwrap_or_else(|| (cache * 8).clamp(256 * MIB, 4096 * MIB));
    let mut run = Run::new(machine, options, cache);
    if run.rows().next().is_none() {
        return Err(MeasureError::NoCpu);
    }
    if bytes < cache.saturating_mul(4) || bytes < MIB {
        let least = cache.saturating_mul(4).max(MIB);
        return Err(MeasureError::TooSmall { bytes, least });
    }
    let columns: Vec<usize> =
        (0..machine.nodes.len()).filter(|j| machine.nodes[*j].memory_bytes > 0).collect();
    run.explain_missing();
    let steps = columns.len() * (2 * run.rows().count() + 2);
    let mut done = 0;
    let mut step = |what: &str| {
        progress(done, steps, what);
        done += 1;
    };
    for j in columns {
        let id = machine.nodes[j].id;
        step(&format!("filling memory of node {id}"));
        let memory = match run.memory_of(j, bytes) {
            Ok(memory) => memory,
            Err(reason) => {
                run.result.unsupported.push(Unsupported {
                    what: format!("latency and bandwidth of node {id}'s memory"),
                    reason,
                });
                continue;
            }
        };
        for i in run.rows().collect::<Vec<_>>() {
            let from = machine.nodes[i].id;
            step(&format!("latency from node {from} to node {id}"));
            run.latency(i, j, &memory)?;
            step(&format!("bandwidth from node {from} to node {id}"));
            run.bandwidth(i, j, &memory)?;
        }
        step(&format!("latency under load on node {id}"));
        run.loaded_latency(j, &memory)?;
    }
    progress(steps, steps, "");
    run.result.cpu_share = Sample::of(run.cpu_shares.take()).map(|sample| sample.median);
    Ok(run.result)
}

/// A measurement in progress.
struct Run<'a> {
    machine: &'a Machine,
    repetitions: usize,
    /// Time of one repetition.
    slice: Duration,
    /// Lines that the last-level cache holds. The chase follows this many before the clock starts,
    /// which evicts what filling the memory left in the cache.
    cache_lines: usize,
    /// Share of the time in which each chase had the CPU.
    cpu_shares: Cell<Vec<f64>>,
    result: Measurement,
}

impl<'a> Run<'a> {
    fn new(machine: &'a Machine, options: &Options, cache_bytes: u64) -> Self {
        let n = machine.nodes.len();
        let repetitions = options.repetitions.max(1);
        let pairs = machine.cpu_nodes().len() * machine.memory_nodes().len();
        // Latency and bandwidth of each pair, and the steps of load of each node.
        let figures = 2 * pairs + (RATES.len() + 2) * n;
        let slices = u32::try_from(figures * repetitions).unwrap_or(u32::MAX).max(1);
        let slice =
            (options.budget / slices).clamp(Duration::from_millis(10), Duration::from_millis(100));
        let lines = cache_bytes / 64;
        Self {
            machine,
            repetitions,
            slice,
            cache_lines: usize::try_from(lines).unwrap_or(usize::MAX),
            cpu_shares: Cell::default(),
            result: Measurement {
                cpu_share: None,
                latency_ns: vec![vec![None; n]; n],
                bandwidth_gb_per_s: vec![vec![None; n]; n],
                loaded_latency: Vec::new(),
                memory: vec![None; n],
                unsupported: Vec::new(),
            },
        }
    }

    /// CPUs of a node that this process may use.
    fn cpus(&self, node: &Node) -> CpuSet {
        node.cpus.intersection(&self.machine.allowed.cpus)
    }

    /// Nodes to measure from.
    fn rows(&self) -> impl Iterator<Item = usize> + use<'a> {
        let machine = self.machine;
        (0..machine.nodes.len())
            .filter(move |i| !machine.nodes[*i].cpus.intersection(&machine.allowed.cpus).is_empty())
    }

    fn explain_missing(&mut self) {
        for node in &self.machine.nodes {
            let reason = if node.cpus.is_empty() {
                "it has no CPUs to measure from"
            } else if self.cpus(node).is_empty() {
                "this process may not run on its CPUs (cpuset or affinity)"
            } else {
                continue;
            };
            self.result.unsupported.push(Unsupported {
                what: format!("latency and bandwidth from node {}", node.id),
                reason: reason.to_owned(),
            });
        }
    }

    fn memory_of(&mut self, j: usize, bytes: u64) -> Result<NodeMemory, String> {
        let node = &self.machine.nodes[j];
        // A thread on the node fills its memory, or any thread if the node has no CPUs.
        let cpu = self.cpus(node).first().or_else(|| self.machine.allowed.cpus.first());
        let memory = NodeMemory::new(self.machine, node, cpu, bytes)?;
        self.result.memory[j] = Some(memory.placed.clone());
        Ok(memory)
    }

    fn latency(&mut self, i: usize, j: usize, memory: &NodeMemory) -> Result<(), MeasureError> {
        let Some(cpu) = self.cpus(&self.machine.nodes[i]).first() else { return Ok(()) };
        let values = self.chase(cpu, memory)?;
        self.result.latency_ns[i][j] = Sample::of(values);
        Ok(())
    }

    fn bandwidth(&mut self, i: usize, j: usize, memory: &NodeMemory) -> Result<(), MeasureError> {
        let cpus: Vec<CpuId> = self.cpus(&self.machine.nodes[i]).iter().collect();
        let mut values = Vec::with_capacity(self.repetitions);
        for _ in 0..self.repetitions {
            values.push(self.bandwidth_of(&cpus, memory)?);
        }
        self.result.bandwidth_gb_per_s[i][j] = Sample::of(values);
        Ok(())
    }

    /// One CPU follows the cycle while the others read at rates from zero to full speed.
    fn loaded_latency(&mut self, j: usize, memory: &NodeMemory) -> Result<(), MeasureError> {
        let node = &self.machine.nodes[j];
        let cpus: Vec<CpuId> = self.cpus(node).iter().collect();
        let Some((&chaser, readers)) = cpus.split_first() else { return Ok(()) };
        // A reader on the chaser's own core would measure shared execution units.
        let siblings = self.machine.cpu(chaser).map(|cpu| cpu.siblings.clone()).unwrap_or_default();
        let readers: Vec<CpuId> =
            readers.iter().copied().filter(|cpu| !siblings.contains(*cpu)).collect();
        if readers.is_empty() {
            self.result.unsupported.push(Unsupported {
                what: format!("latency under load on node {}", node.id),
                reason: "the load needs a second core on the node".to_owned(),
            });
            return Ok(());
        }
        let full = self.bandwidth_of(&readers, memory)?;
        let rates =
            [Some(0.0)].into_iter().chain(RATES.map(|share| Some(share * full))).chain([None]);
        let mut points = Vec::new();
        for rate in rates {
            let (gb_per_s, latencies) = match rate {
                Some(0.0) => (0.0, self.chase(chaser, memory)?),
                _ => stream::while_reading(memory.stream.words(), &readers, rate, || {
                    self.chase(chaser, memory)
                })?,
            };
            if let Some(latency_ns) = Sample::of(latencies) {
                points.push(LoadedPoint { gb_per_s, latency_ns });
            }
        }
        self.result.loaded_latency.push(Loaded { node: node.id, points });
        Ok(())
    }

    fn bandwidth_of(&self, cpus: &[CpuId], memory: &NodeMemory) -> io::Result<f64> {
        let slice = self.slice;
        let pause = || {
            thread::sleep(slice);
            Ok(())
        };
        Ok(stream::while_reading(memory.stream.words(), cpus, None, pause)?.0)
    }

    /// Latency in nanoseconds, once per repetition.
    fn chase(&self, cpu: CpuId, memory: &NodeMemory) -> io::Result<Vec<f64>> {
        let (words, at) = (memory.chase.words(), memory.at.get());
        let (lines, repetitions, slice) = (self.cache_lines, self.repetitions, self.slice);
        let (runs, at) = on_cpu(cpu, move || {
            let mut chase = chase::Chase::new(words, at);
            chase.follow(lines);
            let runs = (0..repetitions).map(|_| chase.run(slice));
            (runs.collect::<Vec<chase::Timed>>(), chase.at())
        })?;
        memory.at.set(at);
        let mut shares = self.cpu_shares.take();
        shares.extend(runs.iter().map(|run| run.cpu_share));
        self.cpu_shares.set(shares);
        Ok(runs.into_iter().map(|run| run.ns).collect())
    }
}

/// Runs `work` in a new thread on one CPU, so that the caller's affinity does not change.
fn on_cpu<T: Send>(cpu: CpuId, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, || {
            pin(cpu);
            work()
        })?;
        thread.join().map_err(|_| io::Error::other("a thread panicked"))
    })
}

/// Pins the calling thread to one CPU. An error is ignored, because the CPU was allowed a moment
/// ago; it would show as spread.
fn pin(cpu: CpuId) {
    let set: CpuSet = [cpu].into_iter().collect();
    let _ = numapilot_sys::affinity::set(0, set.as_words());
}

#[cfg(test)]
mod tests;
