//! `numapilot lab`: programs on emulated machines.
//!
//! Every boot takes seconds, so cases share boots where they can.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod bad_input;
mod balance;
mod balancing;
mod clock;
mod cores;
mod course;
mod cpusets;
#[path = "../guests/mod.rs"]
mod guests;
mod machines;
mod placement;
mod programs;
mod replicate;
mod samples;
mod shell;
#[path = "../../../cli/tests/terminal/mod.rs"]
mod terminal;
mod tune;
