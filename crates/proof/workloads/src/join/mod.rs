//! The common part of W3 and W4: both load two tables, build a structure that finds the tuples of
//! the small table, and look up every tuple of the large one.
//!
//! Source: systematic-numa-study 4.2, `SELECT * FROM R JOIN S ON R.key = S.key`.
//!
//! ```text
//!   R (small) ── build, all threads ──> Matcher
//!                                          |  barrier
//!   S (large) ── probe, all threads ───────+──> Sink: counted, or written ──> Answer
//! ```

pub mod answer;
mod check;
pub mod data;
mod permutation;
mod sink;

use std::num::NonZeroUsize;

use serde::Serialize;

use self::answer::{Answer, Row};
use self::data::JoinSet;
use self::sink::{Counted, Sink, Written};
use crate::WorkloadError;
use crate::aggregation::Load;
use crate::data::Record;
use crate::memory::{self, peak_rss_bytes};
use crate::outcome::{Figures, Outcome};
use crate::size::Grouped;
use crate::slices::Slices;
use crate::team;
use crate::w1::AllocationPattern;

/// How to run W3 or W4.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Options {
    /// The input tables.
    #[serde(flatten)]
    pub set: JoinSet,
    /// Number of threads, including the main thread.
    #[serde(skip)]
    pub threads: NonZeroUsize,
    /// Which thread fills the input tables.
    pub load: Load,
    /// Whether the result is written to memory, or only counted.
    pub materialize: bool,
    /// Where the memory of a written result comes from.
    pub allocation_pattern: AllocationPattern,
    /// Whether to compute the answer a second time, independently, and compare.
    #[serde(skip)]
    pub check: bool,
}

/// Finds the tuples of the small table by their keys. All threads first build it together, and then
/// all of them probe it.
pub trait Matcher: Sync {
    /// Adds tuples of the small table.
    ///
    /// # Errors
    /// [`Refused`] when there is no memory for one of them.
    fn build(&self, tuples: &[Record]) -> Result<(), Refused>;
    /// Calls `found` with both payloads for each pair of tuples whose keys are equal.
    fn probe(&self, tuples: &[Record], found: impl FnMut(u64, u64));
}

/// `malloc` failed.
#[derive(Clone, Copy, Debug)]
pub struct Refused;

/// The name and the figures of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Name on the command line.
    pub workload: &'static str,
    /// Name of the phase that probes.
    pub probing: &'static str,
    /// Memory that the matcher needs for each tuple of the small table.
    pub bytes_per_tuple: u64,
}

/// Stack, morsels, and what `malloc` keeps for a thread.
const BYTES_PER_THREAD: u64 = 256 << 10;

/// Tuples handed to a matcher at a time.
const CHUNK: usize = 1024;

/// The memory that a whole run needs.
#[must_use]
pub fn needed_bytes(method: Method, options: &Options) -> u64 {
    let JoinSet { small, large, .. } = options.set;
    let tuple = size_of::<Record>() as u64;
    let check = if options.check { size_of::<u64>() as u64 } else { 0 };
    let result = if options.materialize { size_of::<Row>() as u64 } else { 0 };
    // A sixteenth more, for what malloc adds to the blocks of the result.
    let result = large.saturating_mul(result).saturating_mul(17) / 16;
    small
        .saturating_mul(tuple + method.bytes_per_tuple + check)
        .saturating_add(large.saturating_mul(tuple))
        .saturating_add(result)
        .saturating_add((options.threads.get() as u64).saturating_mul(BYTES_PER_THREAD))
}

/// Rejects meaningless sizes, and sizes that this machine cannot hold.
///
/// # Errors
/// Those of [`JoinSet::validate`], and [`WorkloadError::TooLittleMemory`].
pub fn validate(method: Method, options: &Options) -> Result<(), WorkloadError> {
    options.set.validate()?;
    let JoinSet { small, large, .. } = options.set;
    let task =
        || format!("{} of {} with {} tuples", method.workload, Grouped(small), Grouped(large));
    let remedy = || {
        let materialize = if options.materialize { ", or leave --materialize out" } else { "" };
        format!("lower --small or --large{materialize}")
    };
    memory::require_available(needed_bytes(method, options), task, remedy)
}

/// Generates two tables, joins them, and checks the result if requested.
///
/// # Errors
/// Errors when the system refuses threads or memory, and [`WorkloadError::WrongResult`].
pub fn run(
    method: Method,
    parameters: serde_json::Value,
    options: &Options,
    matcher: &impl Matcher,
) -> Result<Outcome<Answer>, WorkloadError> {
    let threads = options.threads.get();
    let figures = Figures { workload: method.workload, threads, parameters };
    if options.materialize {
        join::<Written>(method, figures, options, matcher)
    } else {
        join::<Counted>(method, figures, options, matcher)
    }
}

fn join<S: Sink>(
    method: Method,
    figures: Figures,
    options: &Options,
    matcher: &impl Matcher,
) -> Result<Outcome<Answer>, WorkloadError> {
    let threads = options.threads.get();
    let small = Slices::new(options.set.small_table(), threads);
    let large = Slices::new(options.set.large_table(), threads);
    let (answers, phases) = team::run(vec![(); threads], |worker, ()| {
        worker.phase(team::LOAD, || match options.load {
            Load::Threads => {
                small.load(worker.index);
                large.load(worker.index);
            }
            Load::Main if worker.index == 0 => {
                small.load_all();
                large.load_all();
            }
            Load::Main => {}
        });
        // Every worker reaches the same verdict, so none waits for another.
        small.complete().and(large.complete())?;
        let built = worker.phase("build", || {
            let mut chunks = small.morsels(worker.index).flat_map(|morsel| morsel.chunks(CHUNK));
            chunks.try_for_each(|chunk| matcher.build(chunk))
        });
        let mut sink = S::new(options.allocation_pattern);
        worker.phase(method.probing, || {
            for morsel in large.morsels(worker.index) {
                matcher.probe(morsel, |small, large| sink.take(small, large));
            }
        });
        let bytes = options.set.small.saturating_mul(method.bytes_per_tuple);
        built.map_err(|Refused| WorkloadError::Malloc { what: "the index", bytes })?;
        sink.answer()
    })?;
    let answer = Answer::of(answers.into_iter().collect::<Result<Vec<_>, WorkloadError>>()?);
    let peak_rss_bytes = peak_rss_bytes()?;
    if options.check {
        let expected = check::answer(&small, &large)?;
        if answer != expected {
            let (computed, expected) = (answer.to_string(), expected.to_string());
            return Err(WorkloadError::WrongResult { computed, expected });
        }
    }
    let items = options.set.small + options.set.large;
    Ok(Outcome::new(figures, phases, items, answer, peak_rss_bytes, options.check))
}
