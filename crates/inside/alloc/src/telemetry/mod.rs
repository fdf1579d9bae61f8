//! The allocator's reports: how much memory is used for what, and which calls hold it.

pub mod profile;
pub mod statistics;
pub mod usage;
