//! One file per verb: its arguments and what it prints.

use std::process::ExitCode;

use clap::Subcommand;

use self::deferred::Deferred;
use crate::settle::Settle;
use crate::terminal::Terminal;

mod balance;
mod bench;
mod completions;
mod cores;
mod deferred;
mod doctor;
mod lab;
mod man;
mod processes;
mod report;
mod restore;
mod run;
mod stat;
mod study;
mod top;
mod topo;
mod tune;

/// What the user wants done.
#[derive(Subcommand)]
pub enum Verb {
    /// Show this machine: nodes, CPUs, caches, memory, distances.
    Topo(Deferred<topo::Args>),
    /// Show what works here and what does not, each with cause and remedy.
    Doctor(Deferred<doctor::Args>),
    /// Run a program under a plan.
    Run(Deferred<run::Args>),
    /// Put back machine-wide settings that a killed run left changed.
    Restore(Deferred<restore::Args>),
    /// Measure plans against each other and keep the best.
    Tune(Deferred<tune::Args>),
    /// Show the NUMA figures of a run, of processes or of the machine.
    Stat(Deferred<stat::Args>),
    /// Watch nodes, links, traffic and hot regions.
    Top(Deferred<top::Args>),
    /// Keep a program's pages on the nodes that use them.
    Balance(Deferred<balance::Args>),
    /// Give a program as many cores as it needs, near its data.
    Cores(Deferred<cores::Args>),
    /// Run a built-in workload.
    Bench(Deferred<bench::Args>),
    /// Run the papers' tables and figures, and compare.
    Study(Deferred<study::Args>),
    /// Show results of studies as one page.
    Report(Deferred<report::Args>),
    /// Emulate NUMA machines and run programs on them.
    Lab(Deferred<lab::Args>),
    /// Print the completion script of a shell.
    Completions(Deferred<completions::Args>),
    /// Print the manual page, or write those of all verbs into a directory.
    Man(Deferred<man::Args>),
}

impl Verb {
    /// Does it.
    ///
    /// # Errors
    /// numapilot's own failures, each with cause and remedy; the status of a program that
    /// was run is the `ExitCode`.
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if let Some(settle) = self.settle() {
            settle.before(terminal);
        }
        match self {
            Self::Topo(Deferred(args)) => args.run(terminal),
            Self::Doctor(Deferred(args)) => args.run(terminal),
            Self::Run(Deferred(args)) => args.run(terminal),
            Self::Restore(Deferred(args)) => args.run(terminal),
            Self::Tune(Deferred(args)) => args.run(terminal),
            Self::Stat(Deferred(args)) => args.run(terminal),
            Self::Top(Deferred(args)) => args.run(terminal),
            Self::Balance(Deferred(args)) => args.run(terminal),
            Self::Cores(Deferred(args)) => args.run(terminal),
            Self::Bench(Deferred(args)) => args.run(terminal),
            Self::Study(Deferred(args)) => args.run(terminal),
            Self::Report(Deferred(args)) => args.run(terminal),
            Self::Lab(Deferred(args)) => args.run(terminal),
            Self::Completions(Deferred(args)) => args.run(terminal),
            Self::Man(Deferred(args)) => args.run(terminal),
        }
    }

    /// What has to be in order before: what a killed run has left is put back by the next verb,
    /// whichever it is, and must not be taken for the machine's own.
    fn settle(&self) -> Option<Settle> {
        match self {
            Self::Doctor(_)
            | Self::Stat(_)
            | Self::Top(_)
            | Self::Balance(_)
            | Self::Cores(_)
            | Self::Bench(_)
            | Self::Study(_) => Some(Settle::Measuring),
            // A run and a search have their own word about what another one holds; a lab has
            // settings of its own, and the others measure nothing.
            Self::Run(_)
            | Self::Tune(_)
            | Self::Lab(_)
            | Self::Topo(_)
            | Self::Report(_)
            | Self::Completions(_)
            | Self::Man(_) => Some(Settle::Dead),
            // It says what it does.
            Self::Restore(_) => None,
        }
    }
}
