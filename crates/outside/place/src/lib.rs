//! Plans, and starting a program under one.
//!
//! A [`Plan`] says which allocator, which thread placement, which memory policy, which
//! page size and which kernel settings a program gets. It is what `run` applies, what
//! `tune` searches and what a profile file stores.
//!
//! ```text
//!  Plan --Targets::of(machine)--> CPUs, nodes --prepare--> Prepared --spawn--> Running
//!                                               |                               |
//!                                             notes                       wait: Finished
//! ```
#![forbid(unsafe_code)]

pub mod allocators;
mod describe;
pub mod elf;
mod environment;
mod error;
pub mod guard;
pub mod journal;
mod note;
pub mod plan;
mod prepare;
mod profile;
mod running;
mod shared_file;
mod shell;
mod supervise;
mod targets;
pub mod threads;

pub use describe::Loading;
pub use error::PlaceError;
pub use note::Note;
pub use plan::{
    AllocatorChoice, MemoryMode, MemoryPolicy, NumaBalancing, Plan, Thp, ThreadPlacement,
};
pub use prepare::{Options, Prepared, find_program, prepare, prepare_targets};
pub use profile::ProfileError;
pub use running::{Finished, Running, Usage};
pub use shared_file::{remove_stale_files, shared_file};
pub use supervise::Supervisor;
pub use targets::{MemoryTarget, Targets};
