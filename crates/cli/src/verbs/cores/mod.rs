//! `numapilot cores`: gives a program as many cores as it needs, near its data.

mod args;
mod decision;
mod run;
mod simulate;
mod svg;
mod text;

pub use args::Args;
