//! `numapilot bench NAME`: the built-in workloads. One file per family of workloads.

mod aggregation;
mod curves;
mod engines;
mod join;
mod memory_return;
mod micro;
mod options;
mod print;
mod suite;

use std::process::ExitCode;

use clap::Subcommand;
use numapilot_workloads::alloc::Bench;

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
    /// Hash join: all threads build one table, then all probe it.
    W3(join::W3),
    /// Index nested-loop join: every tuple is looked up in an index.
    W4(join::W4),
    /// The 22 queries of TPC-H on a real database, one after the other.
    W5(engines::w5::Args),
    /// Compare allocators over a suite of programs.
    Alloc(suite::Args),
    /// Allocator micro-benchmark: sizes inversely proportional to their class.
    AllocMix(micro::Args),
    /// Allocator micro-benchmark: a server whose threads inherit objects.
    AllocLarson(micro::Args),
    /// Allocator micro-benchmark: many small objects, then all of them freed.
    AllocThreadtest(micro::Args),
    /// Allocator micro-benchmark: passive false sharing.
    AllocCacheScratch(micro::Args),
    /// Allocator micro-benchmark: active false sharing.
    AllocCacheThrash(micro::Args),
    /// Allocator micro-benchmark: half of the threads allocate, the others free.
    AllocProducerConsumer(micro::Args),
    /// Allocator micro-benchmark: buffers that grow step by step.
    AllocRealloc(micro::Args),
    /// Allocator micro-benchmark: blocks of 64 KiB to 16 MiB.
    AllocBig(micro::Args),
    /// Allocator micro-benchmark: lifetimes and sizes that shift.
    AllocChurn(micro::Args),
    /// Allocator micro-benchmark: how soon freed memory goes back to the kernel.
    AllocReturn(memory_return::Args),
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.workload {
            Workload::W1(args) => args.run(terminal),
            Workload::W2(args) => args.run(terminal),
            Workload::W3(args) => args.run(terminal),
            Workload::W4(args) => args.run(terminal),
            Workload::W5(args) => args.run(terminal),
            Workload::Alloc(args) => args.run(terminal),
            Workload::AllocMix(args) => args.run(terminal, Bench::Mix),
            Workload::AllocLarson(args) => args.run(terminal, Bench::Larson),
            Workload::AllocThreadtest(args) => args.run(terminal, Bench::Threadtest),
            Workload::AllocCacheScratch(args) => args.run(terminal, Bench::CacheScratch),
            Workload::AllocCacheThrash(args) => args.run(terminal, Bench::CacheThrash),
            Workload::AllocProducerConsumer(args) => args.run(terminal, Bench::ProducerConsumer),
            Workload::AllocRealloc(args) => args.run(terminal, Bench::Realloc),
            Workload::AllocBig(args) => args.run(terminal, Bench::Big),
            Workload::AllocChurn(args) => args.run(terminal, Bench::Churn),
            Workload::AllocReturn(args) => args.run(terminal),
        }
    }
}
