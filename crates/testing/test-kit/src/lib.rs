//! Shared by the tests of several crates.

#![forbid(unsafe_code)]

mod damage;

pub use damage::{damaged, damaged_bytes};
