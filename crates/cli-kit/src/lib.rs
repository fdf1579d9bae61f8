//! The code that numapilot's command line programs share.
//!
//! Both programs, `numapilot` and `numapilot-lab`, parse with clap, print through [`terminal`],
//! draw with [`svg`], and exit as [`program`] defines. A verb belongs to its program; a module
//! belongs here if verbs of both programs use it.

#![forbid(unsafe_code)]

pub mod axis;
pub mod chart;
pub mod columns;
pub mod completions;
pub mod csv;
pub mod date;
pub mod deferred;
pub mod file;
pub mod guests;
pub mod interruption;
pub mod man;
pub mod node_layout;
pub mod plan_args;
pub mod program;
pub mod settle;
pub mod status_line;
pub mod svg;
pub mod terminal;
pub mod units;
