//! `numapilot tune [LIMITS] -- COMMAND`: measures plans, prints the effect of each, and keeps the
//! best as a profile.

mod added_plans;
mod args;
mod emulated;
mod files;
mod input;
mod limit;
mod progress;
mod run;
mod server;
mod server_command;
mod setup;
mod svg;
mod text;
mod written;

use std::process::ExitCode;

use numapilot_cli_kit::terminal::Terminal;

pub use args::Args;

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        run::run(&self, terminal)
    }
}
