//! The machine: nodes, CPUs, caches, distances, and the parts of it that this process may use.
//!
//! ```text
//!  /sys, /proc (or another root) --read--> Machine <--description-- machines/*.toml
//!     ^                                      |
//!     |machine                   nodestrings resolve against it
//!  Recording: those files as one text
//! ```
//!
//! All crates above use [`Machine`]. A machine read from the kernel and one read from a description
//! differ only in which optional figures they carry.

#![forbid(unsafe_code)]

pub mod bounded;
pub mod description;
mod id;
mod machine;
pub mod measure;
mod nodestring;
mod read;
mod recording;
pub mod remedy;
pub mod routes;
mod set;
mod stable_hash;
pub mod toml_text;

pub use id::{CpuId, NodeId};
pub use machine::{Allowed, Cache, CacheKind, Cpu, Figures, HugePages, Link, Machine, Node};
pub use nodestring::{NodestringError, parse_cpu_nodes, parse_cpus, parse_nodes};
pub use read::{Extent, ReadError, read, read_extent};
pub use recording::{Recording, RecordingError};
pub use set::{CpuSet, IdSet, ListError, NodeSet};
pub use stable_hash::StableHash;
