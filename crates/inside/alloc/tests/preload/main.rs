//! The library as programs use it: preloaded, linked, under musl and on another architecture, in
//! real programs, and with invalid calls.
//!
//! The cases are C and C++ programs in `../../preload/tests`. These tests compile them, run them
//! with the library, and check their exit status.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

mod background;
mod bad_use;
mod call_graph;
mod conformance;
mod disassembly;
mod elsewhere;
mod forbidden_calls;
mod harness;
mod huge_pages;
mod instructions;
mod limits;
mod locks;
mod mappings;
mod memory;
mod pprof;
mod profile;
mod programs;
mod published;
mod scarcity;
mod statistics;
mod stress;
mod symbols;
