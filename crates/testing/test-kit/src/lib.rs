//! What the tests of several crates share.

mod damage;
mod wait;

pub use damage::{damaged, damaged_bytes};
pub use wait::wait_until;
