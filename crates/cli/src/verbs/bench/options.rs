//! Options that several workloads have.

use clap::ValueEnum;
use numapilot_workloads::aggregation::Load;
use numapilot_workloads::w1::AllocationPattern;

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
