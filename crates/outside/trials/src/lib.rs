//! Runs of many machines as Parquet files, and what they show together.
//!
//! Every run is one flat row ([`Row`]), so any program that reads Parquet can select and join them.
//! [`fleet`] answers two questions itself: which plan is best on which kind of machine, and what has
//! changed between two sets of runs.
#![forbid(unsafe_code)]

mod columns;
mod file;
pub mod fleet;
mod row;

pub use file::{FileError, parquet, read};
pub use row::{OK, Row, STUDY, Source};
