//! A sampled memory access, whatever sampled it.

use numapilot_topology::{CpuId, NodeId};
use serde::Serialize;

/// Where an access was served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServedBy {
    /// The CPU's own caches.
    OwnCache,
    /// A cache it shares with others.
    SharedCache,
    /// A cache of another CPU.
    OtherCache,
    /// DRAM.
    Dram,
}

/// One memory access of the target, out of many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// When, on the clock of what sampled it: in a lab, simulated time.
    pub time_ns: u64,
    /// The process, where the source tells. A lab does not: `/proc/PID/pagemap` tells
    /// whose [`Sample::physical_address`] is.
    pub pid: Option<i32>,
    /// Address in the process.
    pub virtual_address: u64,
    /// Address in memory, where the source tells.
    pub physical_address: Option<u64>,
    /// CPU that made the access.
    pub cpu: CpuId,
    /// Home node of the memory, where the source tells.
    pub home: Option<NodeId>,
    /// A store.
    pub write: bool,
    /// Where it was served from, where the source tells.
    pub served_by: Option<ServedBy>,
    /// What it took, where the source tells.
    pub latency_ns: Option<u32>,
}
