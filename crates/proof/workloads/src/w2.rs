//! W2, distributive aggregation: `SELECT key, COUNT(*) ... GROUP BY key`.
//!
//! Source: systematic-numa-study 3.1. The count is the word of the shared table, added to
//! atomically. Each thread first adds up in a small table of its own, one record per line,
//! where a key gives way to the next one that needs its line: what occurs often or close
//! together reaches the shared table as one addition, so that a heavy hitter's cache line
//! does not travel between the CPUs for each of its records. (Cieslewicz, Ross: "Adaptive
//! aggregation on chip multiprocessors", VLDB 2007.)

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::WorkloadError;
use crate::aggregation::{self, Aggregate, Function, Options};
use crate::answer::Row;
use crate::data::Record;
use crate::memory::Need;
use crate::outcome::{Figures, Outcome};
use crate::slices::Slices;
use crate::table::{Batch, Entry, Lookup, Table, hash};

/// Lines of a thread's own table: with 24 bytes each it fits a first-level cache.
const LINES: usize = 512;
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
    aggregation::run(figures, options, Function::Count, &slices, &count, vec![(); threads])
}

#[derive(Debug)]
struct Count {
    table: Table,
    /// Next slot to be turned into a row.
    next: AtomicUsize,
}

/// A thread's own counts: key, hash and count of each line; a count of 0 is no key.
#[derive(Debug)]
struct Local {
    lines: Box<[Lookup<u64>; LINES]>,
    /// What is on its way to the shared table.
    leaving: Batch<u64>,
}

impl Aggregate for Count {
    type Home = ();
    type Local = Local;

    fn local(&self, (): ()) -> Local {
        Local { lines: Box::new([Lookup::default(); LINES]), leaving: Batch::new() }
    }

    fn add(&self, local: &mut Local, records: &[Record]) {
        let view = self.table.view();
        for &Record { key, .. } in records {
            let hash = hash(key);
            // The shared table takes the high bits.
            let line = &mut local.lines[hash as usize % LINES];
            if line.key == key && line.payload > 0 {
                line.payload += 1;
                continue;
            }
            let old = std::mem::replace(line, Lookup { key, hash, payload: 1 });
            if old.payload > 0 && local.leaving.push(old) {
                local.leaving.resolve(&view, add);
            }
        }
    }

    fn flush(&self, mut local: Local) {
        let view = self.table.view();
        for &line in local.lines.iter().filter(|line| line.payload > 0) {
            if local.leaving.push(line) {
                local.leaving.resolve(&view, add);
            }
        }
        local.leaving.resolve(&view, add);
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
