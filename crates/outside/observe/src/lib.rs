//! Counters and figures of a running program.
//!
//! ```text
//!  /proc/PID (tree, threads, numa_maps) --+
//!  perf_event_open (pmu) -----------------+--> Session --> Observation
//!  /proc/vmstat, numastat (node_counters) +
//!  PMU of an emulated machine (lab) ------+
//!
//!  IBS, PEBS, SPE (hardware) -------------+
//!  page faults of AutoNUMA (hint_faults) -+--> Source --> Samples
//!  PMU of an emulated machine (lab) ------+
//!
//!  samples of CPU time (code) -----------------> CodeProfile
//! ```
//!
//! An [`Observation`] has every [`Metric`] either as a value or as the reason why there is none. A
//! figure that could not be measured is never shown as 0.
#![forbid(unsafe_code)]

mod auto_numa;
mod available;
pub mod code;
mod dram_meter;
mod error;
mod footprint;
pub mod hardware;
pub mod hint_faults;
pub mod lab;
mod machine_wide;
mod memory;
pub mod metric;
mod newcomers;
pub mod node_counters;
mod node_memory;
pub mod numa_maps;
mod observation;
pub mod orphans;
pub mod pmu;
mod resident;
mod rings;
mod sample;
mod session;
pub mod source;
mod statistics;
pub mod thread_group;
mod threads;
mod tree;

pub use auto_numa::AutoNuma;
pub use available::available_bytes;
pub use dram_meter::DramMeter;
pub use error::ObserveError;
pub use footprint::Footprint;
pub use memory::{MemoryPoint, next_wait};
pub use metric::{Figure, Figures, Metric};
pub use node_memory::{NodeMemoryError, node_bytes};
pub use observation::{NodeFigures, Observation};
pub use resident::Resident;
pub use sample::{Sample, ServedBy};
pub use session::{LOOK_INTERVAL, Session, cpu_time};
pub use statistics::Summary;
pub use tree::{Orphans, Tree, Used, ancestors, is_kernel_thread};
