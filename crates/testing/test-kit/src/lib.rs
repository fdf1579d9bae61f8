//! Shared by the tests of several crates.

#![forbid(unsafe_code)]

mod cgroup;
mod damage;
mod executable;
mod first_thread;
mod namespace;
mod wait;

pub use cgroup::Cgroup;
pub use damage::{damaged, damaged_bytes};
pub use executable::make_executable;
pub use first_thread::first_thread_ends;
pub use namespace::mount_namespace_refused;
pub use wait::{wait_until, wait_within};
