//! `numapilot top`: shows nodes, links, traffic and hot regions live.
//!
//! ```text
//!  Collector (observe) --> State --> screen: lines --> Window, or standard output
//! ```

mod args;
mod collect;
mod run;
mod screen;
mod state;
mod window;

pub use args::Args;
