//! `bench kernel all`: all kernels with their pathology and under all mitigations, in one table.

mod args;
mod lab;
mod run;
mod series;
mod svg;
mod text;
mod under;
mod under_what;

use std::process::ExitCode;

use numapilot_cli_kit::terminal::Terminal;

pub use args::Args;

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        run::run(&self, terminal)
    }
}
