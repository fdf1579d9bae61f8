//! The common part of W1 and W2: load, aggregate and finalise, each by all threads.

mod need;
mod options;

use crate::answer::{Answer, Row};
use crate::data::{DataSet, Record};
use crate::memory::{self, peak_rss_bytes};
use crate::outcome::{Figures, Outcome};
use crate::size::Grouped;
use crate::slices::Slices;
use crate::table::CHUNK;
use crate::team::{self, Worker};
use crate::{WorkloadError, check};

pub use self::need::{Need, TABLE_BYTES_PER_GROUP};
pub use self::options::{Function, Load, Options};

/// An aggregation over the shared table.
pub trait Aggregate: Sync {
    /// What a thread receives before it starts.
    type Home: Send;
    /// A thread's own state during the aggregation.
    type Local;

    /// Called in each thread at the beginning of the aggregation.
    fn local(&self, home: Self::Home) -> Self::Local;
    /// Adds at most [`CHUNK`] records.
    fn add(&self, local: &mut Self::Local, records: &[Record]);
    /// Adds what `local` still holds to the result.
    fn flush(&self, local: Self::Local);
    /// Computes and returns one thread's share of the rows, once all groups are complete.
    fn finalise(&self) -> Vec<Row>;
}

/// Rejects meaningless sizes, and sizes that this machine cannot hold.
///
/// # Errors
/// Those of [`DataSet::validate`], and [`WorkloadError::TooLittleMemory`].
pub fn validate(
    workload: &'static str,
    options: &Options,
    need: Need,
) -> Result<(), WorkloadError> {
    options.set.validate()?;
    let DataSet { records, groups, .. } = options.set;
    memory::require_available(
        need.bytes(options),
        || format!("{workload} over {} records and {} groups", Grouped(records), Grouped(groups)),
        || {
            let check = if options.check { ", or leave --check out" } else { "" };
            format!("lower --records, --groups or --threads{check}")
        },
    )
}

/// Generates `slices`, runs an aggregation over them on one thread per home, and checks the result
/// if requested.
///
/// # Errors
/// Errors when the system refuses threads or memory, and [`WorkloadError::WrongResult`].
pub fn run<A: Aggregate>(
    figures: Figures,
    options: &Options,
    function: Function,
    slices: &Slices,
    aggregation: &A,
    homes: Vec<A::Home>,
) -> Result<Outcome, WorkloadError> {
    let (results, phases) = team::run(homes, |worker, home| {
        worker.phase(team::LOAD, || match options.load {
            Load::Threads => slices.load(worker.index),
            Load::Main if worker.index == 0 => slices.load_all(),
            Load::Main => {}
        });
        // Every worker reaches the same verdict, so none waits for another.
        slices.complete()?;
        worker.phase("aggregate", || aggregate(worker, slices, aggregation, home));
        Ok(worker.phase("finalise", || aggregation.finalise()))
    })?;
    let rows = results.into_iter().collect::<Result<Vec<_>, WorkloadError>>()?;
    let answer = Answer::of(rows.iter().flatten());
    let peak_rss_bytes = peak_rss_bytes()?;
    drop(rows);
    if options.check {
        let expected = check::answer(slices, function)?;
        if answer != expected {
            let (computed, expected) = (answer.to_string(), expected.to_string());
            return Err(WorkloadError::WrongResult { computed, expected });
        }
    }
    Ok(Outcome::new(figures, phases, options.set.records, answer, peak_rss_bytes, options.check))
}

fn aggregate<A: Aggregate>(worker: &Worker<'_>, slices: &Slices, aggregation: &A, home: A::Home) {
    let mut local = aggregation.local(home);
    for morsel in slices.morsels(worker.index) {
        for chunk in morsel.chunks(CHUNK) {
            aggregation.add(&mut local, chunk);
        }
    }
    aggregation.flush(local);
}
