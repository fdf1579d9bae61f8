//! The atomics of the modules that are modelled: `tests/models.rs` compiles those once more,
//! with the atomics of loom in this place.

pub use core::sync::atomic;

/// Pins that are made at a time: with what comes after them they fill a page of 4 KiB.
pub const PINS_PER_CHUNK: usize = 31;
