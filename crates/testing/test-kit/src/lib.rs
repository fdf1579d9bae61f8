//! Shared by the tests of several crates.

#![forbid(unsafe_code)]

mod damage;
mod wait;

pub use damage::{damaged, damaged_bytes};
pub use wait::wait_until;
