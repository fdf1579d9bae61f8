//! `numapilot tune [LIMITS] -- COMMAND`: measures plans, prints the effect of each, and keeps the
//! best as a profile.

mod added_plans;
mod args;
mod emulated;
mod export;
mod files;
mod input;
mod limit;
mod measure;
mod measure_args;
mod pair;
mod prior;
mod prior_args;
mod prior_text;
mod program_file;
mod progress;
mod rows;
mod run;
mod same_malloc;
mod serve;
mod serve_args;
mod server;
mod server_command;
mod setup;
mod svg;
mod text;
mod trial;
mod trial_args;
mod written;

use std::process::ExitCode;

use numapilot_cli_kit::terminal::Terminal;

use args::Action;
pub use args::Args;

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match &self.action {
            Some(Action::Trial(args)) => args.run(terminal),
            Some(Action::Serve(args)) => args.run(terminal),
            None => run::run(&self, terminal),
        }
    }
}
