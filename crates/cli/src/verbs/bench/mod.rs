//! `numapilot bench NAME`: the built-in workloads. One file per family of workloads.

mod aggregation;
mod print;
mod suite;

use std::process::ExitCode;

use clap::Subcommand;

use crate::terminal::Terminal;

/// Arguments of `bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Every workload prints its phases, `seconds` (all phases but the load), its peak RSS and a
`checksum` that does not depend on threads or timing. To compare two allocators by hand:

  numapilot bench w1 --data moving-cluster
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
    /// Compare allocators over a suite of programs.
    Alloc(suite::Args),
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.workload {
            Workload::W1(args) => args.run(terminal),
            Workload::W2(args) => args.run(terminal),
            Workload::Alloc(args) => args.run(terminal),
        }
    }
}
