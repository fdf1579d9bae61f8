//! Built-in workloads: real programs whose answers are checked against an independent computation.
//! They run unchanged under any allocator, policy and placement.
//!
//! Source: "A Systematic Study of NUMA effects on query workloads" (Memarzia, Ray, Bhavsar 2019),
//! sections 3.1 and 4.2. W1 is holistic aggregation (MEDIAN per group), and W2 is distributive
//! aggregation (COUNT per group), both over one shared hash table. W3 is a hash join, and W4 an
//! index nested-loop join of the same two tables (see [`join`]).
//!
//! ```text
//!   data ──> load ──────> aggregate ─────────> finalise ──> Answer ──> check
//!            each thread   one shared Table     each thread  checksum   sorted,
//!            its slice     Table + buffers (w1) its part                 one thread
//! ```
//!
//! Only the kernels place threads and memory. The other workloads use plain `std` threads and the
//! process's `malloc`, so that placement from outside takes effect.
#![forbid(unsafe_code)]

pub mod aggregation;
pub mod alloc;
pub mod answer;
pub mod check;
pub mod data;
pub mod error;
pub mod join;
pub mod kernels;
pub mod memory;
pub mod outcome;
pub mod random;
pub mod size;
pub mod slices;
pub mod table;
pub mod team;
pub mod w1;
pub mod w2;
pub mod w3;
pub mod w4;

pub use error::WorkloadError;
pub use outcome::Outcome;
