//! `numapilot run [PLAN] -- COMMAND`: runs a program under a plan.
//!
//! If nothing has to be done while the program runs or after it, this process becomes the program,
//! with the same process number and no parent in between.

mod args;
mod effects;
mod notices;
mod per_node;
#[allow(clippy::module_inception, reason = "each verb has its work in run.rs")]
mod run;
mod via;

pub use args::Args;
pub use notices::{announce, finish};
