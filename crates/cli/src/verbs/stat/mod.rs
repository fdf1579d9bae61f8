//! `numapilot stat`: the NUMA figures of a run, laid out like `perf stat`.
//!
//! The program's own output is left alone: the table goes to standard error, as perf's does, JSON
//! goes to standard output, and with `-o` both go to a file.

mod args;
mod events;
mod output;
mod run;
mod text;

pub use args::Args;
