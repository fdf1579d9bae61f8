//! One file per verb: its arguments and what it prints.

use std::process::ExitCode;

use clap::{Command, Subcommand};
use numapilot_cli_kit::completions;
use numapilot_cli_kit::deferred::Deferred;
use numapilot_cli_kit::settle::Settle;
use numapilot_cli_kit::terminal::Terminal;

use crate::elsewhere;

mod advise;
mod attestations;
mod balance;
mod cores;
mod doctor;
mod exit_code;
mod export_metrics;
mod fleet;
mod launchers;
mod man;
mod processes;
mod profile;
mod restore;
mod run;
mod selection;
mod stat;
mod top;
mod topo;
mod tune;
mod watch;

/// The verb that the user gave.
#[derive(Subcommand)]
pub enum Verb {
    /// Show this machine: nodes, CPUs, caches, memory, distances.
    Topo(Deferred<topo::Args>),
    /// Show what works here and what does not, each with cause and remedy.
    Doctor(Deferred<doctor::Args>),
    /// Run a program under a plan.
    Run(Deferred<run::Args>),
    /// Show, check or export a profile.
    Profile(Deferred<profile::Args>),
    /// Put back machine-wide settings that a killed run left changed.
    Restore(Deferred<restore::Args>),
    /// Measure plans against each other and keep the best.
    Tune(Deferred<tune::Args>),
    /// Say from one run which settings can matter, and which plan to try first.
    Advise(Deferred<advise::Args>),
    /// Show what the searches of many machines found together.
    Fleet(Deferred<fleet::Args>),
    /// Show the NUMA figures of a run, of processes or of the machine.
    Stat(Deferred<stat::Args>),
    /// Watch nodes, links, traffic and hot regions.
    Top(Deferred<top::Args>),
    /// Export NUMA metrics for Prometheus.
    ExportMetrics(Deferred<export_metrics::Args>),
    /// Keep a program's pages on the nodes that use them.
    Balance(Deferred<balance::Args>),
    /// Give a program as many cores as it needs, near its data.
    Cores(Deferred<cores::Args>),
    /// Emulate NUMA machines and run programs on them (numapilot-lab).
    Lab,
    /// Run a built-in workload (numapilot-lab).
    Bench,
    /// Run the papers' tables and figures, and compare (numapilot-lab).
    Study,
    /// Print the completion script of a shell.
    Completions(Deferred<completions::Args>),
    /// Print the manual page, or write those of all verbs into a directory.
    Man(Deferred<man::Args>),
}

impl Verb {
    /// Runs the verb. `command` builds the argument table of the whole command line.
    ///
    /// # Errors
    /// numapilot's own failures, each with cause and remedy. The status of a program that was run
    /// is the `ExitCode`.
    pub fn run(self, terminal: &Terminal, command: fn() -> Command) -> anyhow::Result<ExitCode> {
        if let Some(settle) = self.settle() {
            settle.before(terminal);
        }
        match self {
            Self::Topo(Deferred(args)) => args.run(terminal),
            Self::Doctor(Deferred(args)) => args.run(terminal),
            Self::Run(Deferred(args)) => args.run(terminal),
            Self::Profile(Deferred(args)) => args.run(terminal),
            Self::Restore(Deferred(args)) => args.run(terminal),
            Self::Tune(Deferred(args)) => args.run(terminal),
            Self::Advise(Deferred(args)) => args.run(terminal),
            Self::Fleet(Deferred(args)) => args.run(terminal),
            Self::Stat(Deferred(args)) => args.run(terminal),
            Self::Top(Deferred(args)) => args.run(terminal),
            Self::ExportMetrics(Deferred(args)) => args.run(terminal),
            Self::Balance(Deferred(args)) => args.run(terminal),
            Self::Cores(Deferred(args)) => args.run(terminal),
            Self::Lab | Self::Bench | Self::Study => Err(elsewhere::execute()),
            Self::Completions(Deferred(args)) => {
                args.run(terminal, command(), "numapilot", elsewhere::completions)
            }
            Self::Man(Deferred(args)) => args.run(terminal, command()),
        }
    }

    /// The checks before a verb. Whichever verb comes next puts back what a killed run has left, so
    /// that it is not taken for the machine's own settings.
    fn settle(&self) -> Option<Settle> {
        match self {
            Self::Doctor(_)
            | Self::Advise(_)
            | Self::Stat(_)
            | Self::Top(_)
            | Self::Balance(_)
            | Self::Cores(_) => Some(Settle::Measuring),
            // A run and a search report themselves what another one holds; an exporter shows the
            // machine as it is, and the others measure nothing.
            Self::Run(_)
            | Self::Profile(_)
            | Self::Tune(_)
            | Self::Fleet(_)
            | Self::Topo(_)
            | Self::ExportMetrics(_)
            | Self::Completions(_)
            | Self::Man(_) => Some(Settle::Dead),
            // `restore` reports its work itself, and numapilot-lab has its own checks.
            Self::Restore(_) | Self::Lab | Self::Bench | Self::Study => None,
        }
    }
}
