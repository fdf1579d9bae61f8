//! Shared by the tests of several crates.

#![forbid(unsafe_code)]

mod damage;
mod executable;
mod namespace;
mod wait;

pub use damage::{damaged, damaged_bytes};
pub use executable::make_executable;
pub use namespace::mount_namespace_refused;
pub use wait::wait_until;
