//! The atomics of the modules that have a model: `tests/models.rs` compiles those modules again
//! with loom's atomics in place of these.

pub use core::sync::atomic;

/// Pins allocated at a time. With the rest of the chunk they fill a page of 4 KiB.
pub const PINS_PER_CHUNK: usize = 31;
