//! Comparisons as runnable experiments.
//!
//! ```text
//!  studies/allocators.toml --Suite--> tests --files--> Ready --.
//!  installed, --peers, NAME=PATH -----> candidates ------------+--BenchmarkRun--> runs --> Results
//! ```
//!
//! The papers' tables and figures are in [`experiment`], the validation of the emulated
//! machines in [`lab`].
//!
//! A benchmark run executes every program under every allocator, round by round, in random order
//! within a round, so that whatever else the machine does falls on all of them alike.
#![forbid(unsafe_code)]

pub mod benchmark_run;
pub mod candidates;
pub mod experiment;
pub mod files;
pub mod lab;
pub mod results;
pub mod suite;
pub mod verdict;
