//! Gives a running program the number of cores that it needs, in the right place, and takes back
//! the rest.
//!
//! Source: Dominico, de Almeida, Meira, "A PetriNet Mechanism for OLAP in NUMA" (DaMoN
//! 2017): a database that gets every core lets the scheduler spread its workers over all
//! nodes; one that gets the locally optimal number keeps its data near.
//!
//! ```text
//!  Meter --> Load --Controller--> how many? --allocation--> granted --assignment--> Actuator
//!                      (pure)                   (pure)              (pure, Layout)    (kernel)
//! ```
//!
//! The pure parts are functions of state and evidence. They decide the same for a process, in the
//! simulator and in a test.
#![forbid(unsafe_code)]

pub mod actuator;
pub mod allocation;
pub mod assignment;
mod cached_proc_file;
mod daemon;
pub mod decide;
mod error;
pub mod layout;
mod meter;
pub mod net;
mod pace;
mod record;
pub mod simulator;
mod traffic;

pub use daemon::{Added, Daemon, Left, Report, Settings};
pub use error::CoresError;
pub use record::{Outcome, Records};
