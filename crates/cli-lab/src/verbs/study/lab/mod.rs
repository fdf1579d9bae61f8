//! `numapilot study lab`: runs programs on emulated machines, and compares the results with the
//! machines' descriptions.

mod args;
mod markdown;
mod run;
mod svg;
mod text;

pub use args::Args;
