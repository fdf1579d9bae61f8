//! `numapilot bench alloc`: compares allocators, and runs the micro-benchmarks for it.

mod args;
mod compare;
mod field;
mod list;
mod memory_return;
mod micro;
mod progress;
mod run;
mod svg;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_workloads::alloc::Bench;

/// Arguments of `bench alloc`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Without a subcommand it lists the tests and the allocators that would be compared. `suite` and \
`compare` run each test under all allocators in every round, in random order; ratios are taken \
within a round. Tests that crash, hang or are missing are listed. Ctrl-C prints the results so \
far and exits with 130 (SIGTERM: 143, SIGHUP: 129).\n\n\
Examples:\n  numapilot bench alloc suite\n  \
numapilot bench alloc suite --allocators glibc,jemalloc,mine=./libmine.so --filter larson\n  \
numapilot bench alloc suite --programs ~/mimalloc-bench --peers ~/peers --svg suite.svg\n  \
numapilot bench alloc compare --threads 1,2,4,8 --svg threads.svg"
)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    list: args::List,
}

/// The subcommands.
#[derive(Subcommand)]
enum What {
    /// Compare allocators over a suite of programs.
    Suite(args::Suite),
    /// Compare allocators by `mix` with several thread counts: time, and resident memory divided by
    /// requested memory.
    Compare(args::Compare),
    /// Micro-benchmark: frequencies inversely proportional to the size class.
    Mix(micro::Args),
    /// Micro-benchmark: a server whose threads inherit objects.
    Larson(micro::Args),
    /// Micro-benchmark: many small objects are allocated, then all freed.
    Threadtest(micro::Args),
    /// Micro-benchmark: passive false sharing.
    CacheScratch(micro::Args),
    /// Micro-benchmark: active false sharing.
    CacheThrash(micro::Args),
    /// Micro-benchmark: half of the threads allocate, the other half frees.
    ProducerConsumer(micro::Args),
    /// Micro-benchmark: a simulation with particles in cells of each thread, and barriers.
    Cells(micro::Args),
    /// Micro-benchmark: buffers that grow step by step.
    Realloc(micro::Args),
    /// Micro-benchmark: blocks of 64 KiB to 16 MiB.
    Big(micro::Args),
    /// Micro-benchmark: lifetimes and sizes that shift.
    Churn(micro::Args),
    /// Micro-benchmark: how soon freed memory returns to the kernel.
    Return(memory_return::Args),
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let Some(what) = self.what else { return run::list(&self.list, terminal) };
        match what {
            What::Suite(args) => run::suite(&args, terminal),
            What::Compare(args) => run::compare(&args, terminal),
            What::Mix(args) => args.run(terminal, Bench::Mix),
            What::Larson(args) => args.run(terminal, Bench::Larson),
            What::Threadtest(args) => args.run(terminal, Bench::Threadtest),
            What::CacheScratch(args) => args.run(terminal, Bench::CacheScratch),
            What::CacheThrash(args) => args.run(terminal, Bench::CacheThrash),
            What::ProducerConsumer(args) => args.run(terminal, Bench::ProducerConsumer),
            What::Cells(args) => args.run(terminal, Bench::Cells),
            What::Realloc(args) => args.run(terminal, Bench::Realloc),
            What::Big(args) => args.run(terminal, Bench::Big),
            What::Churn(args) => args.run(terminal, Bench::Churn),
            What::Return(args) => args.run(terminal),
        }
    }
}
