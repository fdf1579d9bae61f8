//! `numapilot profile`: shows what a profile sets, checks whether it takes effect here, and writes
//! it for other launchers.

mod args;
mod check;
mod export;
mod probe;
mod show;

use std::process::ExitCode;

pub use args::Args;
use args::Verb;
use numapilot_cli_kit::terminal::Terminal;

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.verb {
            Verb::Show(args) => show::run(&args, terminal),
            Verb::Check(args) => check::run(&args, terminal),
            Verb::Export(args) => export::run(&args, terminal),
            Verb::Probe => probe::run(),
        }
    }
}
