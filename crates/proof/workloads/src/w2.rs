//! W2, distributive aggregation: `SELECT key, COUNT(*) ... GROUP BY key`.
//!
//! Source: systematic-numa-study 3.1. The count is the word of the shared table, and is incremented
//! atomically. Each thread first counts on its own ([`Preaggregation`]), so that a heavy hitter's
//! cache line does not move between CPUs for each record.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::WorkloadError;
use crate::aggregation::{self, Aggregate, Function, Need, Options, TABLE_BYTES_PER_GROUP};
use crate::answer::Row;
use crate::data::Record;
use crate::outcome::{Figures, Outcome};
use crate::slices::Slices;
use crate::table::preaggregation::{self, Preaggregation, Run};
use crate::table::{Batch, Entry, Lookup, Table};

/// Slots of the shared table that one thread turns into rows at a time.
const SHARE: usize = 1 << 14;

const NEED: Need = Need {
    bytes_per_record: 0,
    bytes_per_group: TABLE_BYTES_PER_GROUP,
    preaggregation_bytes: preaggregation::bytes::<0>,
};

/// Runs W2.
///
/// # Errors
/// See [`WorkloadError`].
pub fn run(options: &Options) -> Result<Outcome, WorkloadError> {
    aggregation::validate("w2", options, NEED)?;
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
    /// The next slot to turn into a row.
    next: AtomicUsize,
}

/// A thread's own state.
#[derive(Debug)]
struct Local {
    counts: Preaggregation<0>,
    /// Counts on their way to the shared table.
    leaving: Batch<Run<0>>,
}

impl Count {
    /// Adds all that a thread has counted.
    fn drain(&self, Local { counts, leaving }: &mut Local) {
        counts.drain(|counted| {
            if leaving.push(counted) {
                leaving.resolve(&self.table.view(), add);
            }
        });
        leaving.resolve(&self.table.view(), add);
    }
}

impl Aggregate for Count {
    type Home = Preaggregation<0>;
    type Local = Local;

    fn local(&self, counts: Preaggregation<0>) -> Local {
        Local { counts, leaving: Batch::new() }
    }

    fn add(&self, local: &mut Local, records: &[Record]) {
        if local.counts.is_too_small() {
            self.drain(local);
            local.counts.grow();
        }
        let view = self.table.view();
        local.counts.add(records, |counted| {
            if local.leaving.push(counted) {
                local.leaving.resolve(&view, add);
            }
        });
    }

    fn flush(&self, mut local: Local) {
        self.drain(&mut local);
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

fn add(entry: Entry<'_>, counted: Lookup<Run<0>>) {
    entry.word.fetch_add(counted.payload.length(), Relaxed);
}
