//! Shared by the tests of several crates.

mod damage;

pub use damage::{damaged, damaged_bytes};
