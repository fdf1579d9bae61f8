//! Rules for the source tree, used by tests: imports between files, and words in names.
//!
//! ```text
//!  text --tokens--> identifiers ------------------------> words of the source (tests/words.rs)
//!             |
//!             '---> paths --modules--> what imports what --circles--> tests/circles.rs
//! ```
//!
//! The allocator's layer test also uses this crate to read paths.
#![forbid(unsafe_code)]

pub mod circles;
pub mod files;
pub mod modules;
pub mod paths;
pub mod tokens;
