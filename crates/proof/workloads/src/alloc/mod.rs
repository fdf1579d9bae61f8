//! Allocator micro-benchmarks: each stresses one way in which programs use `malloc`.
//!
//! Sources: systematic-numa-study 3.1.8 (`alloc-mix`, and its two metrics: time, and resident
//! memory over requested memory); numalloc 4.3, which names four programs of the Hoard suite and
//! describes what they test (`alloc-threadtest`, `alloc-larson` after Larson and Krishnan 1998,
//! `alloc-cache-scratch`, `alloc-cache-thrash`). The other benchmarks are patterns that these leave
//! out: frees by another thread, private heaps with barriers, growth, big blocks, lifetimes and
//! sizes that shift, and what happens after the work ([`memory_return`]). All are written from
//! these descriptions.
//!
//! Every object holds a tag that depends on its number. The tag is read back before the object is
//! freed. The checksum over all tags is computed a second time without the objects.

mod big;
mod cells;
mod churn;
mod false_sharing;
mod larson;
pub mod memory_return;
mod mix;
mod object;
mod outcome;
mod producer_consumer;
mod realloc;
mod sizes;
mod tally;
mod threadtest;

use std::num::NonZeroUsize;

pub use outcome::Outcome;
pub use sizes::{Class, Histogram};

use crate::WorkloadError;
use crate::memory::{peak_rss_bytes, resident_bytes};
use crate::team::{self, Worker};
use tally::{Live, Tally};

/// The benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// Sizes inversely proportional to their class; allocates and writes, or reads and frees.
    Mix,
    /// A server whose threads replace objects at random and leave them to their successors.
    Larson,
    /// Each thread allocates many small objects, then frees them all.
    Threadtest,
    /// Passive false sharing: objects from one thread, freed and reused by the others.
    CacheScratch,
    /// Active false sharing: small objects of different threads.
    CacheThrash,
    /// Half of the threads allocate, the others free.
    ProducerConsumer,
    /// Particles in cells of their thread, updated in phases that end at barriers.
    Cells,
    /// Buffers that grow step by step.
    Realloc,
    /// Blocks of 64 KiB to 16 MiB, every page of them touched.
    Big,
    /// Lifetimes and sizes that shift.
    Churn,
}

impl Bench {
    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mix => "alloc-mix",
            Self::Larson => "alloc-larson",
            Self::Threadtest => "alloc-threadtest",
            Self::CacheScratch => "alloc-cache-scratch",
            Self::CacheThrash => "alloc-cache-thrash",
            Self::ProducerConsumer => "alloc-producer-consumer",
            Self::Cells => "alloc-cells",
            Self::Realloc => "alloc-realloc",
            Self::Big => "alloc-big",
            Self::Churn => "alloc-churn",
        }
    }

    /// Allocations per thread that take about a second on current processors.
    #[must_use]
    pub const fn usual_operations(self) -> u64 {
        match self {
            Self::Mix => 10_000_000,
            Self::Larson => 8_000_000,
            Self::Threadtest => 20_000_000,
            Self::CacheScratch | Self::CacheThrash => 5_000_000,
            Self::ProducerConsumer => 4_000_000,
            Self::Cells => 2_000_000,
            Self::Realloc => 600_000,
            Self::Big => 1_000,
            Self::Churn => 1_500_000,
        }
    }

    /// Operations per thread in the paper that describes the benchmark, if it states them.
    #[must_use]
    pub const fn paper_operations(self) -> Option<u64> {
        match self {
            Self::Mix => Some(100_000_000),
            _ => None,
        }
    }
}

/// How to run a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads, including the main thread.
    pub threads: NonZeroUsize,
    /// Operations per thread.
    pub operations: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// What one thread of a benchmark works with.
struct Job<'a> {
    worker: &'a Worker<'a>,
    options: &'a Options,
    tally: Tally<'a>,
}

/// Runs a benchmark.
///
/// # Errors
/// [`WorkloadError`] when a thread cannot be started, or when an object did not hold what was
/// written into it.
pub fn run(bench: Bench, options: &Options) -> Result<Outcome, WorkloadError> {
    let threads = options.threads.get();
    let live = Live::default();
    let shared = producer_consumer::Queue::new(threads);
    let grid = cells::Grid::new(threads);
    let objects = false_sharing::objects_to_share(bench, threads);
    let before = resident_bytes()?;
    let (tallies, phases) = team::run(objects, |worker, object| {
        let mut job = Job { worker, options, tally: Tally::new(&live, options.seed, worker.index) };
        let result = worker.phase("work", || {
            match bench {
                Bench::Mix => mix::work(&mut job),
                Bench::Larson => return larson::work(&mut job),
                Bench::Threadtest => threadtest::work(&mut job),
                Bench::CacheScratch | Bench::CacheThrash => false_sharing::work(&mut job, object),
                Bench::ProducerConsumer => producer_consumer::work(&mut job, &shared),
                Bench::Cells => cells::work(&mut job, &grid),
                Bench::Realloc => realloc::work(&mut job),
                Bench::Big => big::work(&mut job),
                Bench::Churn => churn::work(&mut job),
            }
            Ok(())
        });
        result.map(|()| job.tally.finish())
    })?;
    let tallies = tallies.into_iter().collect::<Result<Vec<_>, WorkloadError>>()?;
    let peak = peak_rss_bytes()?;
    Outcome::new(bench, options, &phases, &tallies, live.peak_bytes(), peak, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Bench; 10] = [
        Bench::Mix,
        Bench::Larson,
        Bench::Threadtest,
        Bench::CacheScratch,
        Bench::CacheThrash,
        Bench::ProducerConsumer,
        Bench::Cells,
        Bench::Realloc,
        Bench::Big,
        Bench::Churn,
    ];

    fn run_small(bench: Bench, threads: usize, seed: u64) -> Outcome {
        let operations = if bench == Bench::Big { 20 } else { 3_000 };
        let options = Options { threads: NonZeroUsize::new(threads).unwrap(), operations, seed };
        run(bench, &options).unwrap()
    }

    #[test]
    fn every_benchmark_reads_back_what_it_wrote() {
        for bench in ALL {
            for threads in [1, 2, 5] {
                let outcome = run_small(bench, threads, 1);
                assert!(outcome.allocations > 0, "{bench:?}");
                let counted: u64 = outcome.sizes.classes().map(|c| c.allocations).sum();
                assert_eq!(counted, outcome.allocations, "{bench:?}");
                assert!(outcome.requested_bytes > 0, "{bench:?}");
            }
        }
    }

    #[test]
    fn the_checksum_depends_on_the_seed_alone() {
        for bench in ALL {
            let first = run_small(bench, 3, 1).checksum;
            assert_eq!(first, run_small(bench, 3, 1).checksum, "{bench:?}");
            assert_ne!(first, run_small(bench, 3, 2).checksum, "{bench:?}");
        }
    }
}
