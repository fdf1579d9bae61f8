//! `numapilot study`: the papers' tables and figures, run here.

mod entry;
mod jobs;
mod lab;
mod list;
mod progress;
mod report;
mod run;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use numapilot_cli_kit::settle::Settle;
use numapilot_cli_kit::terminal::Terminal;

pub use text::{paper, short, span};

/// Where results are unless the user says otherwise.
pub const RESULTS: &str = "numapilot-study.jsonl";

/// Bytes that a file with an experiment, or with what a run printed, may have.
const LONGEST: u64 = 256 << 20;

/// Arguments of `study`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// What is wanted of the studies.
#[derive(Subcommand)]
enum What {
    /// List the experiments: the papers' claims, and what it takes to repeat them.
    List(list::Args),
    /// Run experiments and compare what comes out with the papers.
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

    /// What has to be in order before: a report measures nothing.
    pub fn settle(&self) -> Settle {
        match self.what {
            What::Report(_) => Settle::Dead,
            What::List(_) | What::Run(_) | What::Lab(_) => Settle::Measuring,
        }
    }
}
