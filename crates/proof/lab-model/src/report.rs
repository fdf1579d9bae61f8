//! The results of a simulation, by region.

use serde::{Deserialize, Serialize};

/// The results of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine's title.
    pub machine: String,
    /// Regions of interest, in the order of their first begin. The region `all` is the whole
    /// program.
    pub regions: Vec<Region>,
    /// Marks that had no effect, as in `end join`: an end without a begin, or a second begin.
    #[serde(default)]
    pub ignored_marks: Vec<String>,
}

/// The figures of a region of interest. A region that began several times has the sums. Figures
/// without a count are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// The name.
    pub name: String,
    /// The number of times it began.
    pub times: u64,
    /// Whether it had not ended when the report was written, or when the whole run ended.
    pub open: bool,
    /// Simulated seconds from begin to end.
    pub seconds: f64,
    /// Both modes together.
    #[serde(flatten)]
    pub all: Counts,
    /// User mode: all programs of the guest.
    pub user: Counts,
    /// The guest's kernel.
    pub kernel: Counts,
    /// DRAM accesses per microsecond (carrefour: MAPTU).
    pub maptu: Option<f64>,
    /// Standard deviation of the controllers' loads, divided by the mean.
    pub controller_imbalance: Option<f64>,
    /// Traffic of all links in both directions, in bytes per simulated second.
    pub link_bytes_per_second: Option<f64>,
    /// Mean used share of the links' bandwidth, in both directions.
    pub link_usage: Option<f64>,
    /// Standard deviation of the links' use, divided by the mean.
    pub link_imbalance: Option<f64>,
    /// Traffic of each node.
    pub nodes: Vec<NodeTraffic>,
    /// Traffic of each link.
    pub links: Vec<LinkTraffic>,
}

/// The counts of all CPUs, in one mode or in both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Sum of the CPUs' simulated busy time, in seconds.
    pub cpu_seconds: f64,
    /// Instructions.
    pub instructions: u64,
    /// Cycles in which the CPUs were busy.
    pub cycles: u64,
    /// Instructions per cycle.
    pub ipc: Option<f64>,
    /// Memory reads.
    pub reads: u64,
    /// Memory writes.
    pub writes: u64,
    /// Accesses that missed the first-level cache.
    pub first_level_misses: u64,
    /// Accesses that looked up the last-level cache.
    pub last_level_references: u64,
    /// Accesses that missed the last-level cache.
    pub last_level_misses: u64,
    /// Last-level misses per thousand instructions (carrefour: L3MPKI).
    pub mpki: Option<f64>,
    /// TLB misses on 4 KiB pages.
    pub tlb_4k_misses: u64,
    /// TLB misses on 2 MiB pages.
    pub tlb_2m_misses: u64,
    /// Writes that invalidated copies in other caches.
    pub invalidations: u64,
    /// Lines that came from other caches; row = node of the CPU, column = source node.
    pub transfers: Vec<Vec<u64>>,
    /// DRAM accesses by loads; row = node of the CPU, column = home node.
    pub dram_reads: Vec<Vec<u64>>,
    /// DRAM accesses by stores.
    pub dram_writes: Vec<Vec<u64>>,
    /// DRAM accesses to the CPU's own node.
    pub local_accesses: u64,
    /// DRAM accesses to other nodes.
    pub remote_accesses: u64,
    /// Local accesses divided by all DRAM accesses (carrefour: local access ratio, LAR).
    pub local_access_ratio: Option<f64>,
    /// Mean latency of DRAM accesses, including queues.
    pub mean_latency_ns: Option<f64>,
    /// The part of the mean latency that was spent in queues.
    pub mean_queue_ns: Option<f64>,
    /// 99th percentile of the latency of DRAM accesses, accurate to 3.2 %.
    pub p99_latency_ns: Option<f64>,
}

/// Traffic of a node's memory controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeTraffic {
    /// DRAM accesses to the node.
    pub accesses: u64,
    /// Modified lines written back to the node.
    pub writebacks: u64,
    /// Share of all accesses (carrefour, Figure 3).
    pub share: Option<f64>,
    /// Used share of its bandwidth.
    pub usage: Option<f64>,
}

/// Traffic of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// One end.
    pub from: usize,
    /// The other end.
    pub to: usize,
    /// Bytes from `from` to `to`.
    pub bytes: u64,
    /// Bytes from `to` to `from`.
    pub bytes_back: u64,
    /// Used share of the bandwidth of both directions.
    pub usage: Option<f64>,
}
