//! What one run has shown.

use std::collections::{BTreeMap, BTreeSet};

use numapilot_observe::{Figures, Metric};
use numapilot_place::Plan;
use numapilot_topology::NodeId;
use numapilot_tune::space::{FactorName, Facts, Level, Space};

use crate::shares::{Share, imbalance};

/// CPU time from which the division between user and kernel mode is known: ten ticks of 4 ms.
const DIVISIBLE_SECONDS: f64 = 0.04;

/// The figures of one run, and what can be varied on this machine.
#[derive(Clone, Debug)]
pub struct Run {
    /// The figures of the run.
    pub figures: Figures,
    /// The most memory of the program on each node, in bytes; empty if it is not known.
    pub node_bytes: BTreeMap<NodeId, u64>,
    /// What samples of the program's code have shown, or why there are none.
    pub code: Result<CodeShares, String>,
    /// The malloc that the program uses, if it is known.
    pub malloc: Option<String>,
    /// Why another malloc does not replace it, if so: words about the program, with its name.
    pub fixed_malloc: Option<String>,
    /// The facts of the machine.
    pub facts: Facts,
    /// Nodes with memory that the program may use.
    pub memory_nodes: BTreeSet<NodeId>,
    /// CPUs that the program may use.
    pub cpus: usize,
    /// Least latency of a node to its own memory, in seconds, if the machine states it.
    pub local_latency_seconds: Option<f64>,
    /// The levels that can be applied here.
    pub space: Space,
    /// Plans that change a setting of the whole machine.
    pub machine_wide: Vec<Plan>,
}

/// What samples of the program's code have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeShares {
    /// All samples of user mode.
    pub samples: u64,
    /// Samples in the code of an allocator.
    pub allocator: u64,
    /// Samples in code that is not known, and samples that were lost.
    pub unknown: u64,
    /// Threads with samples.
    pub threads: usize,
    /// Threads with samples in the code of an allocator.
    pub allocating_threads: usize,
    /// Samples on the CPUs of each node.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Threads with samples on the CPUs of one node only, by node.
    pub node_threads: BTreeMap<NodeId, usize>,
    /// Threads with samples on CPUs of more than one node.
    pub wandering_threads: usize,
}

impl Run {
    /// A figure, or why there is none.
    ///
    /// # Errors
    /// The reason.
    pub fn figure(&self, metric: Metric) -> Result<f64, String> {
        self.figures.get(&metric).cloned().unwrap_or_else(|| Err("not observed".to_owned()))
    }

    /// CPU time in user mode and in the kernel, in seconds.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn cpu_seconds(&self) -> Result<f64, String> {
        Ok(self.figure(Metric::UserSeconds)? + self.figure(Metric::SystemSeconds)?)
    }

    /// The share of CPU time that the program has spent in the kernel.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn kernel_share(&self) -> Result<f64, String> {
        let cpu = self.cpu_seconds()?;
        if cpu < DIVISIBLE_SECONDS {
            return Err(format!(
                "the program has used {:.1} ms of CPU time, which the kernel divides between user \
                 and kernel mode by its ticks; let it work for longer",
                cpu * 1e3
            ));
        }
        Ok(self.figure(Metric::SystemSeconds)? / cpu)
    }

    /// Mean number of CPUs that were busy with the program, at least 1: what is saved of CPU time
    /// can save this many times as large a share of wall time, if all of it is on the critical path.
    #[must_use]
    pub fn concurrency(&self) -> f64 {
        self.figure(Metric::CpusUtilized).unwrap_or(self.cpus as f64).max(1.0)
    }

    /// The share of page faults that were not the first on a page of its largest resident memory:
    /// memory that was given back to the kernel and taken again, or children that share pages. An
    /// estimate, because processes and huge pages are counted together. `None` if it is not known.
    #[must_use]
    pub fn repeated_faults(&self) -> Option<f64> {
        const PAGE_BYTES: f64 = 4096.0;
        let faults = self.figure(Metric::MinorFaults).ok().filter(|faults| *faults > 0.0)?;
        let first = self.figure(Metric::PeakRssBytes).ok()? / PAGE_BYTES;
        Some(((faults - first) / faults).max(0.0))
    }

    /// The levels of a factor besides the one that changes nothing, or why it is not varied.
    ///
    /// # Errors
    /// The reasons.
    pub fn levels(&self, factor: FactorName) -> Result<&[Level], String> {
        if let Some(found) = self.space.factors.iter().find(|found| found.name == factor) {
            return Ok(found.levels.get(1..).unwrap_or_default());
        }
        let reasons = self.space.skipped.iter().filter(|skipped| skipped.factor == factor);
        let reasons = reasons.map(|skipped| match &skipped.level {
            Some(level) => format!("{level}: {}", skipped.reason),
            None => skipped.reason.clone(),
        });
        Err(reasons.collect::<Vec<_>>().join("; "))
    }

    /// Whether a level changes a setting of the whole machine.
    #[must_use]
    pub fn is_machine_wide(&self, level: &Level) -> bool {
        let mut plan = Plan::default();
        level.apply(&mut plan);
        self.machine_wide.contains(&plan)
    }

    /// Standard deviation of the memory on the nodes, divided by its mean; `None` if it is not
    /// known.
    #[must_use]
    pub fn memory_imbalance(&self) -> Option<f64> {
        let bytes = |node| self.node_bytes.get(node).copied().unwrap_or_default() as f64;
        imbalance(&self.memory_nodes.iter().map(bytes).collect::<Vec<_>>())
    }

    /// Whether every thread stays on its node, and no node has more threads than if they were spread
    /// evenly over all nodes with CPUs that the program may use; `None` if it is not known.
    #[must_use]
    pub fn is_spread(&self) -> Option<bool> {
        let code = self.code.as_ref().ok().filter(|code| code.threads > 0)?;
        let even = code.threads.div_ceil(self.facts.cpu_nodes.max(1));
        let staying: usize = code.node_threads.values().sum();
        Some(staying == code.threads && code.node_threads.values().all(|count| *count <= even))
    }

    /// The local access ratio that CPU time and memory by node give if every thread uses all memory
    /// alike: an estimate and no measurement. `None` if either is not known.
    #[must_use]
    pub fn estimated_local_ratio(&self) -> Option<f64> {
        let code = self.code.as_ref().ok()?;
        let (time, memory): (u64, u64) =
            (code.nodes.values().sum(), self.node_bytes.values().sum());
        if time == 0 || memory == 0 {
            return None;
        }
        let share = |(node, samples): (&NodeId, &u64)| {
            let here = self.node_bytes.get(node).copied().unwrap_or_default();
            *samples as f64 / time as f64 * here as f64 / memory as f64
        };
        Some(code.nodes.iter().map(share).sum())
    }
}

impl CodeShares {
    /// The share of samples in the code of an allocator. The upper end counts code that is not known
    /// as an allocator's.
    #[must_use]
    pub fn allocator_share(&self) -> Share {
        let seen = Share::of(self.allocator, self.samples);
        let most = Share::of(self.allocator + self.unknown, self.samples + self.unknown);
        Share { most: most.most.max(seen.most), ..seen }
    }
}
