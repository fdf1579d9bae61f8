//! What the allocator tells of itself: how much memory is used for what, and which calls hold it.

pub mod profile;
pub mod statistics;
pub mod usage;
