//! Counters and figures of a running program.
#![forbid(unsafe_code)]

mod error;
pub mod metric;
pub mod node_counters;
pub mod numa_maps;
pub mod statistics;
mod tree;

pub use error::ObserveError;
pub use metric::Metric;
pub use statistics::Summary;
