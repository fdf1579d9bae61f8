//! Options that several workloads share.

use std::num::NonZeroUsize;
use std::thread;

use clap::ValueEnum;
use numapilot_workloads::aggregation::Load;
use numapilot_workloads::w1::AllocationPattern;

/// Options of all built-in workloads.
#[derive(clap::Args)]
pub struct Shared {
    /// Threads, including the main thread [default: the number of usable CPUs].
    #[arg(short = 't', long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl Shared {
    /// The requested number of threads, or the number of usable CPUs.
    pub fn threads(&self) -> NonZeroUsize {
        let threads = self.threads.or(thread::available_parallelism().ok());
        threads.unwrap_or(NonZeroUsize::MIN)
    }
}

/// Options of the workloads that read an input: aggregations and joins.
#[derive(clap::Args)]
pub struct Reading {
    #[command(flatten)]
    pub shared: Shared,

    /// Which thread fills the input, and so touches it first: each thread the part that it will
    /// read, or the main thread everything.
    #[arg(long, value_enum, value_name = "WHO", default_value = "threads")]
    pub load: LoadBy,
}

/// `--load`
#[derive(Clone, Copy, ValueEnum)]
pub enum LoadBy {
    Threads,
    Main,
}

impl From<LoadBy> for Load {
    fn from(by: LoadBy) -> Self {
        match by {
            LoadBy::Threads => Self::Threads,
            LoadBy::Main => Self::Main,
        }
    }
}

/// `--allocation-pattern`
#[derive(Clone, Copy, ValueEnum)]
pub enum Pattern {
    /// One allocation per buffer.
    Raw,
    /// Buffers are cut from larger chunks of each thread.
    Chunked,
}

impl From<Pattern> for AllocationPattern {
    fn from(pattern: Pattern) -> Self {
        match pattern {
            Pattern::Raw => Self::Raw,
            Pattern::Chunked => Self::Chunked,
        }
    }
}
