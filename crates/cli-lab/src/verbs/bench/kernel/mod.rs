//! `numapilot bench kernel`: the NUMA pathology kernels, each with its mitigations.

mod all;
mod args;
mod run;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_workloads::kernels::Kernel;

/// Arguments of `bench kernel`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// The subcommands.
#[derive(Subcommand)]
enum What {
    /// The main thread fills the data, all threads read all of it.
    #[command(
        name = "k1-init1-readall",
        visible_alias = "k1",
        mut_arg("place", args::place(Kernel::Init1Readall))
    )]
    K1(args::Plain),
    /// The main thread fills the data, each thread reads a slice.
    #[command(
        name = "k2-init1-slices",
        visible_alias = "k2",
        mut_arg("place", args::place(Kernel::Init1Slices))
    )]
    K2(args::Plain),
    /// Dependent probes of a shared table.
    #[command(
        name = "k3-probe",
        visible_alias = "k3",
        mut_arg("place", args::place(Kernel::Probe))
    )]
    K3(args::Plain),
    /// Random atomic adds to one table.
    #[command(name = "k4-gups", visible_alias = "k4", mut_arg("place", args::place(Kernel::Gups)))]
    K4(args::Plain),
    /// Private arrays whose threads have moved to another node.
    #[command(
        name = "k5-swapped",
        visible_alias = "k5",
        mut_arg("place", args::place(Kernel::Swapped))
    )]
    K5(args::Plain),
    /// Private arrays whose threads keep moving between nodes.
    #[command(
        name = "k6-rotate",
        visible_alias = "k6",
        mut_arg("place", args::place(Kernel::Rotate))
    )]
    K6(args::Rotate),
    /// Short bursts into fresh memory.
    #[command(
        name = "k7-burst",
        visible_alias = "k7",
        mut_arg("place", args::place(Kernel::Burst))
    )]
    K7(args::Plain),
    /// No pathology: all accesses are local.
    #[command(
        name = "k8-good-local",
        visible_alias = "k8",
        mut_arg("place", args::place(Kernel::GoodLocal))
    )]
    K8(args::Plain),
    /// Huge pages whose halves belong to different threads.
    #[command(
        name = "k9-thp-false-sharing",
        visible_alias = "k9",
        mut_arg("place", args::place(Kernel::ThpFalseSharing))
    )]
    K9(args::Plain),
    /// A neighbour takes most of one memory controller's bandwidth.
    #[command(
        name = "k10-skew",
        visible_alias = "k10",
        mut_arg("place", args::place(Kernel::Skew))
    )]
    K10(args::Plain),
    /// All threads read all data and write seldom.
    #[command(
        name = "k11-read-mostly",
        visible_alias = "k11",
        mut_arg("place", args::place(Kernel::ReadMostly))
    )]
    K11(args::ReadMostly),
    /// A producer on one node and a consumer on another.
    #[command(
        name = "k12-pipe",
        visible_alias = "k12",
        mut_arg("place", args::place(Kernel::Pipe))
    )]
    K12(args::Plain),
    /// All kernels, or those that are named, under all their mitigations.
    All(all::Args),
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.what {
            What::K1(args) => run::plain(&args, terminal, Kernel::Init1Readall),
            What::K2(args) => run::plain(&args, terminal, Kernel::Init1Slices),
            What::K3(args) => run::plain(&args, terminal, Kernel::Probe),
            What::K4(args) => run::plain(&args, terminal, Kernel::Gups),
            What::K5(args) => run::plain(&args, terminal, Kernel::Swapped),
            What::K6(args) => run::rotate(&args, terminal),
            What::K7(args) => run::plain(&args, terminal, Kernel::Burst),
            What::K8(args) => run::plain(&args, terminal, Kernel::GoodLocal),
            What::K9(args) => run::plain(&args, terminal, Kernel::ThpFalseSharing),
            What::K10(args) => run::plain(&args, terminal, Kernel::Skew),
            What::K11(args) => run::read_mostly(&args, terminal),
            What::K12(args) => run::plain(&args, terminal, Kernel::Pipe),
            What::All(args) => args.run(terminal),
        }
    }
}
