//! Comparisons as repeatable experiments.
//!
//! ```text
//!  studies/allocators.toml --Suite--> tests --files--> Ready --.
//!  installed, --peers, NAME=PATH -----> candidates ------------+--BenchmarkRun--> runs --> Results
//! ```
//!
//! The papers' tables and figures are in [`experiment`], the validation of the emulated machines in
//! [`lab`].
//!
//! A benchmark run executes every program under every allocator in rounds, in random order within
//! each round, so other load on the machine affects all of them alike.
#![forbid(unsafe_code)]

pub mod benchmark_run;
pub mod candidates;
pub mod experiment;
pub mod files;
pub mod lab;
pub mod results;
pub mod suite;
pub mod verdict;
