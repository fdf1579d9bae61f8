//! Moves the pages of a running program to the nodes that use them.
//!
//! Source: Dashti et al., "Traffic Management" (Carrefour), ASPLOS 2013, and its overview
//! by Gaud et al. (CACM 58:12, 2015).
//!
//! ```text
//!  accesses of an interval --> Evidence --decide--> Decision: orders --> Memory --> Moved
//!                                         ^                                          |
//!                                         +---------------- done --------------------+
//! ```
//!
//! A decision ([`Balance::decide`]) is a function of state, evidence and clock. It makes no system
//! call, so it decides the same for a process, a simulated one and a recorded trace.
#![forbid(unsafe_code)]

pub mod adaptive;
mod agent;
mod balance;
mod carry_out;
mod decision;
mod evidence;
mod memory;
mod metrics;
mod nodes;
mod ownership;
mod page_map;
pub mod paper;
mod process;
pub mod simulator;
mod target;
pub mod trace;
mod traffic;

pub use adaptive::Adaptive;
pub use agent::Agents;
pub use balance::{Balance, Setup};
pub use carry_out::{Done, carry_out};
pub use decision::{Decision, FirstTouch, Moved, Order, Replicable, State, Why};
pub use evidence::{Access, Evidence, Page, Region};
pub use memory::{Memory, MemoryError, Obstacle, Whereabouts};
pub use metrics::Metrics;
pub use nodes::Nodes;
pub use ownership::by_process;
pub use paper::Paper;
pub use process::Process;
pub use target::{Interval, Target};
pub use traffic::Traffic;
