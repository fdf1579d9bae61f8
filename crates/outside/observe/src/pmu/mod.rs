//! Hardware and kernel counters of a target.
//!
//! Events that are divided by one another are opened as a group. They then count at the same times
//! even if there are more events than counters.

mod counters;
pub mod dram;
mod processor;

pub use counters::{Attach, Counters, PERMIT_COUNTING, refusal};
pub use processor::Processor;
