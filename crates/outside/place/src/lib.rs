//! Plans, and starting a program under one.
//!
//! A [`Plan`] says which allocator, which thread placement, which memory policy, which
//! page size and which kernel settings a program gets. It is what `run` applies, what
//! `tune` searches and what a profile file stores.

pub mod plan;

pub use plan::{
    AllocatorChoice, MemoryMode, MemoryPolicy, NumaBalancing, Plan, Thp, ThreadPlacement,
};
