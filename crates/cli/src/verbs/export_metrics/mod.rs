//! `numapilot export-metrics`: NUMA metrics for Prometheus.
//!
//! ```text
//!  Target (one for each selector) --+
//!                                   +--> Collector --> text --> Server, textfile, or standard output
//!  DramMeter (the machine) ---------+
//! ```
//!
//! Figures are collected at an interval of the exporter. A scrape gets the last ones: it costs the
//! processes nothing, and several scrapers get the same figures.

mod args;
mod collect;
mod member;
mod moved;
mod plans;
mod rights;
mod run;
mod server;
mod target;
mod text;
mod textfile;

pub use args::Args;
