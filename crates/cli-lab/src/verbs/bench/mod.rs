//! `numapilot bench NAME`: the built-in workloads, one file or folder per family.

mod aggregation;
mod alloc;
mod args;
mod dump;
mod engines;
mod join;
mod kernel;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use numapilot_cli_kit::terminal::Terminal;

/// Arguments of `bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Every workload prints its phases, `seconds` (all phases but the load), its peak RSS and a \
`checksum` that does not depend on threads or timing. To compare two allocators by hand:\n\n  \
numapilot bench w1 --data moving-cluster\n  \
numapilot run --allocator jemalloc -- numapilot bench w1 --data moving-cluster")]
pub struct Args {
    #[command(subcommand)]
    workload: Workload,
}

/// The workloads.
#[derive(Subcommand)]
enum Workload {
    /// Holistic aggregation: MEDIAN per group, a growing buffer for each group.
    W1(aggregation::W1),
    /// Distributive aggregation: COUNT per group.
    W2(aggregation::W2),
    /// Hash join: all threads build one table, then all probe it.
    W3(join::W3),
    /// Index nested-loop join: every tuple is looked up in an index.
    W4(join::W4),
    /// The queries of TPC-H or TPC-DS on a real database, one after the other.
    W5(engines::w5::Args),
    /// TPC-H or TPC-DS queries that arrive at a real database at a given rate.
    Arrivals(engines::arrivals::Args),
    /// TPC-H or TPC-DS queries on a real database from a growing number of clients.
    Clients(engines::clients::Args),
    /// Compare allocators over a suite of programs; micro-benchmarks of allocators.
    Alloc(alloc::Args),
    /// NUMA pathology kernels, each with its mitigations.
    Kernel(kernel::Args),
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.workload {
            Workload::W1(args) => args.run(terminal),
            Workload::W2(args) => args.run(terminal),
            Workload::W3(args) => args.run(terminal),
            Workload::W4(args) => args.run(terminal),
            Workload::W5(args) => args.run(terminal),
            Workload::Arrivals(args) => args.run(terminal),
            Workload::Clients(args) => args.run(terminal),
            Workload::Alloc(args) => args.run(terminal),
            Workload::Kernel(args) => args.run(terminal),
        }
    }
}
