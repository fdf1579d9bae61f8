//! `numapilot balance`: keeps a program's pages on the nodes that use them.

mod args;
mod decision;
mod files;
mod pace;
mod replay;
mod run;
mod session;
mod target_nodes;
mod text;

pub use args::{Args, VERB};
