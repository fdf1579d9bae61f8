//! `numapilot bench NAME`: the built-in workloads. One file per family of workloads.

mod aggregation;
mod curves;
mod engines;
mod join;
mod kernels;
mod memory_return;
mod micro;
mod options;
mod print;
mod suite;

use std::process::ExitCode;

use clap::Subcommand;
use numapilot_workloads::alloc::Bench;
use numapilot_workloads::kernels::Kernel;

use crate::terminal::Terminal;

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
    /// The 22 queries of TPC-H on a real database, one after the other.
    W5(engines::w5::Args),
    /// TPC-H queries that arrive at a real database by themselves.
    Arrivals(engines::arrivals::Args),
    /// TPC-H queries on a real database from a growing number of clients.
    Clients(engines::clients::Args),
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
    /// NUMA pathology kernel: the main thread fills, all threads read everything.
    #[command(name = "k1-init1-readall", visible_alias = "k1")]
    K1(kernels::Args),
    /// NUMA pathology kernel: the main thread fills, each thread has a slice.
    #[command(name = "k2-init1-slices", visible_alias = "k2")]
    K2(kernels::Args),
    /// NUMA pathology kernel: dependent probes of a shared table.
    #[command(name = "k3-probe", visible_alias = "k3")]
    K3(kernels::Args),
    /// NUMA pathology kernel: random atomic adds to one table.
    #[command(name = "k4-gups", visible_alias = "k4")]
    K4(kernels::Args),
    /// NUMA pathology kernel: private arrays whose threads have moved.
    #[command(name = "k5-swapped", visible_alias = "k5")]
    K5(kernels::Args),
    /// NUMA pathology kernel: private arrays whose threads keep moving.
    #[command(name = "k6-rotate", visible_alias = "k6")]
    K6(kernels::Rotate),
    /// NUMA pathology kernel: short bursts into fresh memory.
    #[command(name = "k7-burst", visible_alias = "k7")]
    K7(kernels::Args),
    /// NUMA pathology kernel: nothing is wrong.
    #[command(name = "k8-good-local", visible_alias = "k8")]
    K8(kernels::Args),
    /// NUMA pathology kernel: huge pages that threads share by halves.
    #[command(name = "k9-thp-false-sharing", visible_alias = "k9")]
    K9(kernels::Args),
    /// NUMA pathology kernel: a neighbour takes most of one controller.
    #[command(name = "k10-skew", visible_alias = "k10")]
    K10(kernels::Args),
    /// NUMA pathology kernel: all threads read everything and seldom write.
    #[command(name = "k11-read-mostly", visible_alias = "k11")]
    K11(kernels::ReadMostly),
    /// NUMA pathology kernel: a producer on one node, a consumer on another.
    #[command(name = "k12-pipe", visible_alias = "k12")]
    K12(kernels::Args),
    /// All NUMA pathology kernels under all their cures.
    Kernels(kernels::all::Args),
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
            Workload::K1(args) => args.run(terminal, Kernel::Init1Readall),
            Workload::K2(args) => args.run(terminal, Kernel::Init1Slices),
            Workload::K3(args) => args.run(terminal, Kernel::Probe),
            Workload::K4(args) => args.run(terminal, Kernel::Gups),
            Workload::K5(args) => args.run(terminal, Kernel::Swapped),
            Workload::K6(args) => args.run(terminal),
            Workload::K7(args) => args.run(terminal, Kernel::Burst),
            Workload::K8(args) => args.run(terminal, Kernel::GoodLocal),
            Workload::K9(args) => args.run(terminal, Kernel::ThpFalseSharing),
            Workload::K10(args) => args.run(terminal, Kernel::Skew),
            Workload::K11(args) => args.run(terminal),
            Workload::K12(args) => args.run(terminal, Kernel::Pipe),
            Workload::Kernels(args) => args.run(terminal),
        }
    }
}
