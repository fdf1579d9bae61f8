//! `numapilot study`: runs the papers' tables and figures on this machine or on emulated ones.

mod args;
mod entry;
mod lab;
mod list;
mod progress;
mod report;
mod rows;
mod run;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use numapilot_cli_kit::settle::Settle;
use numapilot_cli_kit::terminal::Terminal;

pub use text::{paper, short, span};

/// The default file of results.
pub const RESULTS: &str = "numapilot-study.jsonl";

/// Maximum size of an experiment file or of a run's output.
const LONGEST: u64 = 256 << 20;

/// Arguments of `study`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// The subcommands.
#[derive(Subcommand)]
enum What {
    /// List the experiments: the papers' claims, and the effort to repeat them.
    List(list::Args),
    /// Run experiments and compare the results with the papers.
    Run(run::Args),
    /// Compare the timing model of emulated machines with their descriptions.
    Lab(lab::Args),
    /// Show results as one page.
    Report(report::Args),
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.what {
            What::List(args) => args.run(terminal),
            What::Run(args) => args.run(terminal),
            What::Lab(args) => args.run(terminal),
            What::Report(args) => args.run(terminal),
        }
    }

    /// Whether to restore left-over settings first: a report measures nothing.
    pub fn settle(&self) -> Settle {
        match self.what {
            What::Report(_) => Settle::Dead,
            What::List(_) | What::Run(_) | What::Lab(_) => Settle::Measuring,
        }
    }
}
