//! One file per verb: its arguments and what it prints.

use std::process::ExitCode;

use clap::Subcommand;

use crate::terminal::Terminal;

mod bench;
mod completions;
mod doctor;
mod lab;
mod man;
mod restore;
mod run;
mod stat;
mod topo;
mod tune;

/// What the user wants done.
#[derive(Subcommand)]
pub enum Verb {
    /// Show this machine: nodes, CPUs, caches, memory, distances.
    Topo(topo::Args),
    /// Show what works here and what does not, each with cause and remedy.
    Doctor(doctor::Args),
    /// Run a program under a plan.
    Run(run::Args),
    /// Put back machine-wide settings that a killed run left changed.
    Restore(restore::Args),
    /// Measure plans against each other and keep the best.
    Tune(tune::Args),
    /// Show the NUMA figures of a run, of processes or of the machine.
    Stat(stat::Args),
    /// Run a built-in workload.
    Bench(bench::Args),
    /// Emulate NUMA machines and run programs on them.
    Lab(lab::Args),
    /// Print the completion script of a shell.
    Completions(completions::Args),
    /// Print the manual page, or write those of all verbs into a directory.
    Man(man::Args),
}

impl Verb {
    /// Does it.
    ///
    /// # Errors
    /// numapilot's own failures, each with cause and remedy; the status of a program that
    /// was run is the `ExitCode`.
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self {
            Self::Topo(args) => args.run(terminal),
            Self::Doctor(args) => args.run(terminal),
            Self::Run(args) => args.run(terminal),
            Self::Restore(args) => args.run(terminal),
            Self::Tune(args) => args.run(terminal),
            Self::Stat(args) => args.run(terminal),
            Self::Bench(args) => args.run(terminal),
            Self::Lab(args) => args.run(terminal),
            Self::Completions(args) => args.run(terminal),
            Self::Man(args) => args.run(terminal),
        }
    }
}
