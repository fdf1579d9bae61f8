//! The timing model of a NUMA machine's memory: the cost of every access of every CPU.
//!
//! ```text
//!  description + layout --from_description--> Model --JSON--> emulator's plugin: Simulation
//!                                                                  | every access
//!                                                                  v
//!  table, JSON, picture <--------------- Report <--JSON-- counters of regions of interest
//! ```
//!
//! The model does not depend on QEMU: [`Simulation::access`] takes a CPU, a virtual and a physical
//! address, and a test can call it as well as an emulator. Programs and the guest's kernel go
//! through the same caches and are counted apart.
#![forbid(unsafe_code)]

mod error;
mod layout;
mod model;
pub mod queue;
mod regions;
mod report;
mod simulation;
mod variation;

pub use error::ModelError;
pub use layout::{CpuPlace, Layout, MemoryRange};
pub use model::{Cache, Link, Model, Tlb};
pub use regions::Regions;
pub use report::{Counts, LinkTraffic, NodeTraffic, Region, Report};
pub use simulation::{
    Accesses, Core, Executed, PREFETCH_FACTOR, Probe, QUANTUM_PS, Simulation, Way,
};
pub use variation::{Parameter, VARIABLE, Variation, VariationError};
