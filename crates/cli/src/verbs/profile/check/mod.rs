//! `numapilot profile check FILE`: starts a small program under the plan and reads back what took
//! effect in it.

mod run;
mod text;

pub use run::run;
