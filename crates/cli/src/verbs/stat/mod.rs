//! `numapilot stat`: the NUMA figures of a run, laid out like `perf stat`.
//!
//! The program's own output is its own: the table goes to standard error, as perf's
//! does, JSON to standard output, and both to a file with `-o`.

mod args;
mod events;
mod output;
mod run;
mod text;
mod watch;

pub use args::Args;
