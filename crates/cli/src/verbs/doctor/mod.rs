//! `numapilot doctor`: shows what works on this machine and what does not, with causes and
//! remedies.
//!
//! A check is one small function. If possible and harmless, it tries the capability for real, and
//! reads the kernel's settings to explain the result.

mod args;
mod cgroups;
mod check;
mod counters;
mod json;
mod lab_program;
mod libraries;
mod pages;
mod placement;
mod report;
mod rights;
mod run;
mod system;
mod text;
mod trials;

pub use args::Args;
