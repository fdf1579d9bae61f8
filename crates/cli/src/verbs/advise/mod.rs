//! `numapilot advise`: one instrumented run, and what its figures say about every factor.
//!
//! ```text
//!  run or attach --measure--> Measured --evidence--> advise::Run --rules--> Advice --> text, json
//! ```
//!
//! The rules are in `numapilot-advise`. The program's own output is left alone, as by `stat`: the
//! advice goes to standard error, JSON to standard output, and with `-o` both go to a file.

mod args;
mod evidence;
mod json;
mod measure;
mod run;
mod text;

pub use args::Args;
