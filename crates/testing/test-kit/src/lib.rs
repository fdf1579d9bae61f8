//! What the tests of several crates share.

mod damage;

pub use damage::{damaged, damaged_bytes};
