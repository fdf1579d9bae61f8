//! Measures plans against each other and picks one.
//!
//! ```text
//!  space --shape--> decide --orders--> run --trials--> journal
//!                     ^                                  |
//!                     '------------ evidence ------------'--> report
//! ```
//!
//! [`decide::decide`] is pure: it sees the space's shape, the settings and the trials so
//! far. `tests/simulator` runs it on random response surfaces with known truth.
#![forbid(unsafe_code)]

pub mod decide;
pub mod evidence;
pub mod journal;
pub mod lines;
pub mod report;
pub mod run;
pub mod search;
pub mod shape;
pub mod space;
pub mod statistics;
