//! Rules of the source tree, for tests: which files import which, and which words name things.
//!
//! ```text
//!  text --tokens--> identifiers ------------------------> words of the source (tests/words.rs)
//!             |
//!             '---> paths --modules--> what imports what --circles--> tests/circles.rs
//! ```
//!
//! The allocator's test of its layers reads paths by this crate, too.
#![forbid(unsafe_code)]

pub mod circles;
pub mod files;
pub mod modules;
pub mod paths;
pub mod tokens;
