//! `numapilot lab`: emulated NUMA machines.

mod args;
mod json;
mod list;
mod mark;
mod probe;
mod run;
mod seeds;
mod setup;
mod shell;
pub mod svg;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use numapilot_cli_kit::terminal::Terminal;

/// Arguments of `lab`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// The subcommands.
#[derive(Subcommand)]
enum What {
    /// Download QEMU and a kernel into the cache; nothing is installed.
    Setup(setup::Args),
    /// List the known machines.
    List(list::Args),
    /// Boot a machine and run a program in it.
    Run(run::Args),
    /// Begin or end a region of interest, in a program on an emulated machine.
    Mark(mark::Args),
    /// Make accesses of known cost, in a program on an emulated machine.
    #[command(hide = true)]
    Probe(probe::Args),
    /// Boot a machine and start a shell in it.
    Shell(shell::Args),
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.what {
            What::Setup(args) => args.run(terminal),
            What::List(args) => args.run(terminal),
            What::Run(args) => args.run(terminal),
            What::Mark(args) => args.run(),
            What::Probe(args) => args.run(terminal),
            What::Shell(args) => args.run(terminal),
        }
    }
}
