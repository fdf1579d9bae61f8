//! `numapilot topo`: shows the machine.

mod args;
mod caches;
mod fold;
mod json;
mod matrix;
mod measure;
mod root;
mod run;
pub(super) mod svg;
mod text;

pub use args::Args;
