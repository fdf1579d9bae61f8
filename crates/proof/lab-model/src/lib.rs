//! Timing model of a NUMA machine's memory: what every access of every CPU costs.
//!
//! ```text
//!  description + layout --from_description--> Model --JSON--> emulator's plugin: Simulation
//!                                                                  | every access
//!                                                                  v
//!  table, JSON, picture <--------------- Report <--JSON-- counters of regions of interest
//! ```
//!
//! The model has no idea of QEMU: [`Simulation::access`] is called with a CPU, a virtual
//! and a physical address, and may be called by a test as well as by an emulator.
#![forbid(unsafe_code)]

mod error;
mod layout;
mod model;
pub mod queue;
mod regions;
mod report;
mod simulation;

pub use error::ModelError;
pub use layout::{CpuPlace, Layout, MemoryRange};
pub use model::{Cache, Link, Model, Tlb};
pub use regions::Regions;
pub use report::{LinkTraffic, NodeTraffic, Region, Report};
pub use simulation::{Core, Executed, PREFETCH_FACTOR, Probe, QUANTUM_PS, Simulation, Way};
