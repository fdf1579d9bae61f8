//! An example of a run, for tests of the rules.

use numapilot_observe::{Figures, Metric};
use numapilot_topology::NodeId;
use numapilot_tune::space::{Facts, Space};

use crate::run::{CodeShares, Run};

/// What tests vary. The machine has four CPUs.
pub struct Example {
    pub nodes: u32,
    pub user: f64,
    pub system: f64,
    /// Mean number of busy CPUs.
    pub busy: f64,
    pub rss: f64,
    pub code: Result<CodeShares, String>,
    /// DRAM accesses; not counted if both are 0.
    pub local: f64,
    pub remote: f64,
    pub latency: Option<f64>,
    pub imbalance: Option<f64>,
    pub cycles: Option<f64>,
    pub dtlb: Option<f64>,
    pub balancing: bool,
    pub hint_faults: f64,
}

/// Four threads on two nodes, all memory on node 0, no PMU, AutoNUMA off, 10 % of 10 s of CPU time
/// in the kernel.
impl Default for Example {
    fn default() -> Self {
        let code = CodeShares {
            samples: 4000,
            allocator: 400,
            threads: 4,
            allocating_threads: 4,
            nodes: [(NodeId(0), 2000), (NodeId(1), 2000)].into(),
            ..CodeShares::default()
        };
        Self {
            nodes: 2,
            user: 9.0,
            system: 1.0,
            busy: 4.0,
            rss: 1e9,
            code: Ok(code),
            local: 0.0,
            remote: 0.0,
            latency: None,
            imbalance: None,
            cycles: None,
            dtlb: None,
            balancing: false,
            hint_faults: 0.0,
        }
    }
}

const NO_PMU: &str = "no hardware PMU";

pub fn run(example: Example) -> Run {
    let known = |value: Option<f64>| value.ok_or_else(|| NO_PMU.to_owned());
    let accesses = example.local + example.remote;
    let counted = |value: f64| known((accesses > 0.0).then_some(value));
    let seconds = (example.user + example.system) / example.busy;
    let figures = Figures::from([
        (Metric::Seconds, Ok(seconds)),
        (Metric::UserSeconds, Ok(example.user)),
        (Metric::SystemSeconds, Ok(example.system)),
        (Metric::CpusUtilized, Ok(example.busy)),
        (Metric::PeakRssBytes, Ok(example.rss)),
        (Metric::MinorFaults, Ok(1000.0)),
        (Metric::CpuMigrations, Ok(12.0)),
        (Metric::Cycles, known(example.cycles)),
        (Metric::DtlbMisses, known(example.dtlb)),
        (Metric::LocalAccesses, counted(example.local)),
        (Metric::RemoteAccesses, counted(example.remote)),
        (Metric::LocalAccessRatio, counted(example.local / accesses)),
        (Metric::DramLatencySeconds, known(example.latency)),
        (Metric::ControllerImbalance, known(example.imbalance)),
        (Metric::NumaPteUpdates, Ok(example.hint_faults)),
        (Metric::NumaHintFaults, Ok(example.hint_faults)),
        (Metric::NumaPagesMigrated, Ok(example.hint_faults)),
    ]);
    let facts = Facts {
        cpu_nodes: example.nodes as usize,
        memory_nodes: example.nodes as usize,
        allocators: vec!["tbbmalloc".to_owned(), "jemalloc".to_owned()],
        thp: Some("madvise".to_owned()),
        numa_balancing: Some(example.balancing),
    };
    Run {
        figures,
        node_bytes: [(NodeId(0), 1 << 30)].into(),
        code: example.code,
        malloc: Some("glibc".to_owned()),
        fixed_malloc: None,
        memory_nodes: (0..example.nodes).map(NodeId).collect(),
        cpus: 4,
        local_latency_seconds: Some(80e-9),
        space: Space::new(&facts, &[], Vec::new(), |_| Ok(())),
        facts,
        machine_wide: Vec::new(),
    }
}
