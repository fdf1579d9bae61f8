//! Options that several workloads have.

use std::num::NonZeroUsize;
use std::thread;

use clap::ValueEnum;
use numapilot_workloads::aggregation::Load;
use numapilot_workloads::w1::AllocationPattern;

/// What all workloads of our own take.
#[derive(clap::Args)]
pub struct Shared {
    /// Threads, the main thread being one of them [default: the CPUs that may be used].
    #[arg(short = 't', long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Seed of all that is random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl Shared {
    /// As many as asked for, else as there are CPUs.
    pub fn threads(&self) -> NonZeroUsize {
        let threads = self.threads.or(thread::available_parallelism().ok());
        threads.unwrap_or(NonZeroUsize::MIN)
    }
}

/// What those take that read an input, the aggregations and the joins.
#[derive(clap::Args)]
pub struct Reading {
    #[command(flatten)]
    pub shared: Shared,

    /// Who fills the input, and so touches it first: each thread the part that it will read,
    /// or the main thread everything.
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
    /// Buffers cut from chunks of each thread.
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
