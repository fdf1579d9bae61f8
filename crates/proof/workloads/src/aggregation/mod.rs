//! What W1 and W2 have in common: load, aggregate, finalise, each by all threads.

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
    /// What a thread is given before it starts.
    type Home: Send;
    /// What a thread keeps for itself while aggregating.
    type Local;

    /// At the beginning of the aggregation, in the thread itself.
    fn local(&self, home: Self::Home) -> Self::Local;
    /// Takes in at most [`CHUNK`] records.
    fn add(&self, local: &mut Self::Local, records: &[Record]);
    /// Hands over what `local` still keeps.
    fn flush(&self, local: Self::Local);
    /// Computes and returns the rows that fall to one thread; all groups are complete.
    fn finalise(&self) -> Vec<Row>;
}

/// Refuses sizes without meaning, and those that this machine cannot hold.
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

/// Runs an aggregation over `slices`, which are generated first, on one thread per home,
/// and checks it if asked.
///
/// # Errors
/// Threads and memory that the system refuses, and [`WorkloadError::WrongResult`].
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
        // Every worker comes to the same verdict, so that none waits for another.
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
