//! Real databases under load: the queries of TPC-H and TPC-DS against unmodified engines.
//!
//! ```text
//!  Kind --find--> System --load--> database in the cache    Dataset: tables, queries, answers
//!                   |                     |
//!                   +------- start -------+--> Engine --connect--> Session --run--> Execution
//!                                                |
//!              power (one after the other) | arrivals (open loop) | clients (closed loop)
//! ```
//!
//! Sources: systematic-numa-study W5 (`power`), allocation-for-query-processing sections 4 and
//! 5 (`arrivals`), prt-pro Figure 1 (`clients`).
#![forbid(unsafe_code)]

mod allocator;
mod answer;
pub mod arrivals;
mod benchmark;
mod cache;
mod client_pool;
pub mod clients;
mod database;
mod dataset;
mod engine;
mod error;
mod files;
mod latency;
mod memory;
mod postgresql;
pub mod power;
mod process;
mod python;
mod registry;
mod run_directory;
mod step;
mod tpcds;
mod tpch;
mod verify;
pub mod warm_up;

pub use allocator::Mallocs;
pub use answer::{Answer, Digest, Rounding};
pub use benchmark::{Benchmark, Query, Reference, Scale, Table};
pub use cache::Cache;
pub use client_pool::End;
pub use database::Database;
pub use dataset::Dataset;
pub use engine::{Engine, Execution, Launch, Session, SessionError, System};
pub use error::EngineError;
pub use latency::Latencies;
pub use memory::{MemoryPoint, Watch, Watched};
pub use registry::Kind;
pub use run_directory::RunDirectory;
pub use step::Step;
pub use verify::{Verdict, Verifier};
