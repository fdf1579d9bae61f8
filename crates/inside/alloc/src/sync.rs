//! The atomics of the modules that are model-checked: `tests/models.rs` compiles those modules
//! again, with loom's atomics in this place.

pub use core::sync::atomic;
