//! A sampled memory access, from any source.

use numapilot_topology::{CpuId, NodeId};
use serde::Serialize;

/// The place from which an access was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServedBy {
    /// The CPU's own caches.
    OwnCache,
    /// A cache that the CPU shares with others.
    SharedCache,
    /// A cache of another CPU.
    OtherCache,
    /// DRAM.
    Dram,
}

/// One sampled memory access of the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Time on the clock of the source: in a lab, simulated time.
    pub time_ns: u64,
    /// The process, if the source reports it. A lab does not: there, `/proc/PID/pagemap` tells the
    /// owner of [`Sample::physical_address`].
    pub pid: Option<i32>,
    /// Address in the process.
    pub virtual_address: u64,
    /// Physical address, if the source reports it.
    pub physical_address: Option<u64>,
    /// CPU of the access.
    pub cpu: CpuId,
    /// Home node of the memory, if the source reports it.
    pub home: Option<NodeId>,
    /// Whether it is a store.
    pub write: bool,
    /// The place from which it was served, if the source reports it.
    pub served_by: Option<ServedBy>,
    /// Latency, if the source reports it.
    pub latency_ns: Option<u32>,
}
