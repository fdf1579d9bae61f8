//! W2, distributive aggregation: `SELECT key, COUNT(*) ... GROUP BY key`.
//!
//! Source: systematic-numa-study 3.1. The count is the word of the shared table, added to
//! atomically. Each thread first counts by itself ([`Preaggregation`]), so that a heavy
//! hitter's cache line does not travel between the CPUs for each of its records.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::WorkloadError;
use crate::aggregation::{self, Aggregate, Function, Options};
use crate::answer::Row;
use crate::data::Record;
use crate::memory::Need;
use crate::outcome::{Figures, Outcome};
use crate::slices::Slices;
use crate::table::preaggregation::{Partial, Preaggregation};
use crate::table::{Batch, Entry, Lookup, Table};

/// Slots of the shared table that one thread turns into rows at a time.
const SHARE: usize = 1 << 14;

/// Runs W2.
///
/// # Errors
/// See [`WorkloadError`].
pub fn run(options: &Options) -> Result<Outcome, WorkloadError> {
    aggregation::validate("w2", options, Need::of(Function::Count))?;
    let threads = options.threads.get();
    let figures = Figures {
        workload: "w2",
        threads,
        parameters: serde_json::to_value(options).unwrap_or_default(),
    };
    let slices = Slices::new(options.set, threads);
    let count = Count { table: Table::new(options.estimate, threads)?, next: AtomicUsize::new(0) };
    let homes = (0..threads).map(|_| Preaggregation::new(options.estimate));
    let homes = homes.collect::<Result<_, _>>()?;
    aggregation::run(figures, options, Function::Count, &slices, &count, homes)
}

#[derive(Debug)]
struct Count {
    table: Table,
    /// Next slot to be turned into a row.
    next: AtomicUsize,
}

/// What a thread keeps for itself.
#[derive(Debug)]
struct Local {
    counts: Preaggregation<u64>,
    /// What is on its way to the shared table.
    leaving: Batch<u64>,
}

impl Partial for u64 {
    #[inline]
    fn add(&mut self, _: u64) {
        *self += 1;
    }

    fn is_full(&self) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        *self == 0
    }
}

impl Aggregate for Count {
    type Home = Preaggregation<u64>;
    type Local = Local;

    fn local(&self, mut counts: Preaggregation<u64>) -> Local {
        counts.touch();
        Local { counts, leaving: Batch::new() }
    }

    fn add(&self, Local { counts, leaving }: &mut Local, records: &[Record]) {
        let view = self.table.view();
        counts.add(records, |partial| {
            if leaving.push(partial) {
                leaving.resolve(&view, add);
            }
        });
    }

    fn flush(&self, Local { counts, mut leaving }: Local) {
        counts.drain(|partial| {
            if leaving.push(partial) {
                leaving.resolve(&self.table.view(), add);
            }
        });
        leaving.resolve(&self.table.view(), add);
    }

    fn finalise(&self) -> Vec<Row> {
        let view = self.table.view();
        let mut rows = Vec::new();
        loop {
            let start = self.next.fetch_add(SHARE, Relaxed);
            if start >= view.len() {
                return rows;
            }
            let share = view.iter(start..view.len().min(start + SHARE));
            rows.extend(share.map(|(key, value)| Row { key, value }));
        }
    }
}

fn add(entry: Entry<'_>, partial: Lookup<u64>) {
    entry.word.fetch_add(partial.payload, Relaxed);
}
