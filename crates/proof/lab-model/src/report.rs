//! What a simulation has counted, region by region.

use serde::{Deserialize, Serialize};

/// Counters of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine's title.
    pub machine: String,
    /// Regions of interest in the order in which they first began. The region `all` is the
    /// whole program.
    pub regions: Vec<Region>,
}

/// Counters of a region of interest. A name that began and ended several times has the
/// sums. Figures that nothing was counted for are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// How often it began.
    pub times: u64,
    /// It had not ended when this was written.
    pub open: bool,
    /// Simulated time from begin to end.
    pub seconds: f64,
    /// Simulated time that the CPUs were busy, added up.
    pub cpu_seconds: f64,
    /// Instructions in user mode.
    pub instructions: u64,
    /// Instructions of the kernel, which take no simulated time.
    pub kernel_instructions: u64,
    /// Cycles that the CPUs were busy.
    pub cycles: u64,
    /// Instructions by cycles.
    pub ipc: Option<f64>,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Accesses that missed the first level of cache.
    pub first_level_misses: u64,
    /// Accesses that looked into the last level.
    pub last_level_references: u64,
    /// Those that missed it.
    pub last_level_misses: u64,
    /// Misses of the last level per thousand instructions (carrefour: L3MPKI).
    pub mpki: Option<f64>,
    /// Misses of the TLB on 4 KiB pages.
    pub tlb_4k_misses: u64,
    /// Misses of the TLB on 2 MiB pages.
    pub tlb_2m_misses: u64,
    /// Writes that invalidated copies in other caches.
    pub invalidations: u64,
    /// Lines that came from other caches; row = node of the CPU, column = from that node.
    pub transfers: Vec<Vec<u64>>,
    /// DRAM accesses by loads; row = node of the CPU, column = home node.
    pub dram_reads: Vec<Vec<u64>>,
    /// DRAM accesses by stores.
    pub dram_writes: Vec<Vec<u64>>,
    /// DRAM accesses to the CPU's own node.
    pub local_accesses: u64,
    /// DRAM accesses to other nodes.
    pub remote_accesses: u64,
    /// Local by all DRAM accesses (carrefour: local access ratio, LAR).
    pub local_access_ratio: Option<f64>,
    /// DRAM accesses per microsecond (carrefour: MAPTU).
    pub maptu: Option<f64>,
    /// Standard deviation by mean of the loads of the controllers.
    pub controller_imbalance: Option<f64>,
    /// Traffic of all links together, both directions.
    pub link_bytes_per_second: Option<f64>,
    /// Mean share of the links' bandwidth in use, both directions.
    pub link_usage: Option<f64>,
    /// Standard deviation by mean of the use of the links.
    pub link_imbalance: Option<f64>,
    /// Mean latency of DRAM accesses, queues included.
    pub mean_latency_ns: Option<f64>,
    /// Of that, in queues.
    pub mean_queue_ns: Option<f64>,
    /// 99th percentile of the latency of DRAM accesses, to 3.2 %.
    pub p99_latency_ns: Option<f64>,
    /// Traffic of each node.
    pub nodes: Vec<NodeTraffic>,
    /// Traffic of each link.
    pub links: Vec<LinkTraffic>,
}

/// Traffic of a node's memory controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeTraffic {
    /// DRAM accesses to it.
    pub accesses: u64,
    /// Modified lines written back to it.
    pub writebacks: u64,
    /// Share of all accesses (carrefour, Figure 3).
    pub share: Option<f64>,
    /// Share of its bandwidth in use.
    pub usage: Option<f64>,
}

/// Traffic of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// One end.
    pub from: usize,
    /// The other end.
    pub to: usize,
    /// Bytes carried from `from` to `to`.
    pub bytes: u64,
    /// Bytes carried back.
    pub bytes_back: u64,
    /// Share of the bandwidth of both directions in use.
    pub usage: Option<f64>,
}
