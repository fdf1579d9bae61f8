//! The atomics of the modules that are modelled: `tests/models.rs` compiles those once more,
//! with the atomics of loom in this place.

pub use core::sync::atomic;
