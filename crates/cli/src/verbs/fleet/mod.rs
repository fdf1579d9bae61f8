//! `numapilot fleet`: what the runs of many machines show together.

mod args;
mod damage;
#[allow(clippy::module_inception, reason = "each verb has its work in run.rs")]
mod run;
mod text;

pub use args::Args;
pub use damage::load_guarded;
