//! The aggregation proper: values into their groups' buffers, then the medians.

use std::mem;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use numapilot_sys::prefetch;

use super::buffer::Buffer;
use super::group::{Groups, Numbers};
use super::hot::{HotKeys, Verdict};
use crate::WorkloadError;
use crate::aggregation::{Aggregate, Options};
use crate::answer::Row;
use crate::data::Record;
use crate::table::{BATCH, Batch, Lookup, Table, View, hash};

/// MEDIAN per group with buffers of type `B`.
#[derive(Debug)]
pub struct Median<B: Buffer> {
    table: Table,
    groups: Groups<B>,
}

impl<B: Buffer> Median<B> {
    /// Empty.
    pub fn new(options: &Options) -> Result<Self, WorkloadError> {
        let threads = options.threads.get();
        Ok(Self {
            table: Table::new(options.estimate, threads)?,
            groups: Groups::new(options.set.groups, threads),
        })
    }

    fn resolve(&self, local: &mut Local<B>, view: &View<'_>) {
        let mut numbers = [(0, 0); BATCH];
        let mut length = 0;
        local.waiting.resolve(view, |entry, Lookup { key, payload: value, .. }| {
            numbers[length] = (self.groups.number(entry, key, &mut local.numbers), value);
            length += 1;
        });
        // The headers together, then where the values go together, then one by one.
        for &(number, _) in &numbers[..length] {
            prefetch::for_write(self.groups.group(number));
        }
        for &(number, _) in &numbers[..length] {
            prefetch::for_write(self.groups.group(number).tail.load(Relaxed));
        }
        for &(number, value) in &numbers[..length] {
            self.append(number, &[value], &mut local.source);
        }
    }

    #[inline]
    fn append(&self, number: usize, values: &[u64], source: &mut B::Source) {
        let group = self.groups.group(number);
        let mut buffer = group.values.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.put(values, source);
        group.tail.store(buffer.tail(), Relaxed);
    }

    /// Appends many values of one key.
    fn append_run(
        &self,
        key: u64,
        values: &[u64],
        numbers: &mut Numbers,
        source: &mut B::Source,
        view: &View<'_>,
    ) {
        let home = view.home(hash(key));
        let entry = view.entry(key, home, view.stored(home));
        self.append(self.groups.number(entry, key, numbers), values, source);
    }
}

/// What a thread keeps for itself.
#[derive(Debug)]
pub struct Local<B: Buffer> {
    hot: HotKeys,
    waiting: Batch<u64>,
    numbers: Numbers,
    source: B::Source,
}

impl<B: Buffer> Aggregate for Median<B> {
    type Home = B::Home;
    type Local = Local<B>;

    fn local(&self, home: B::Home) -> Local<B> {
        Local { hot: HotKeys::new(), waiting: Batch::new(), numbers: 0..0, source: B::source(home) }
    }

    fn add(&self, local: &mut Local<B>, records: &[Record]) {
        let view = self.table.view();
        for &Record { key, value } in records {
            let hash = hash(key);
            match local.hot.note(key, hash, value) {
                Verdict::Collected => {}
                Verdict::Pass => {
                    if local.waiting.push(Lookup { key, hash, payload: value }) {
                        self.resolve(local, &view);
                    }
                }
                Verdict::Full(run) => {
                    self.append_run(key, run, &mut local.numbers, &mut local.source, &view);
                }
                Verdict::Displaced { key: old, run } => {
                    self.append_run(old, run, &mut local.numbers, &mut local.source, &view);
                    if local.waiting.push(Lookup { key, hash, payload: value }) {
                        self.resolve(local, &view);
                    }
                }
            }
        }
    }

    fn flush(&self, mut local: Local<B>) {
        let view = self.table.view();
        self.resolve(&mut local, &view);
        for (key, run) in local.hot.rest() {
            self.append_run(key, run, &mut local.numbers, &mut local.source, &view);
        }
    }

    fn finalise(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for group in self.groups.share().flatten() {
            // The buffer ends here: what one thread has allocated, any thread may free.
            let mut buffer =
                mem::take(&mut *group.values.lock().unwrap_or_else(PoisonError::into_inner));
            if let Some(value) = twice_median(buffer.values()) {
                rows.push(Row { key: group.key.load(Relaxed), value });
            }
        }
        rows
    }
}

/// Twice the median, none of no values; the order of the values is lost.
pub fn twice_median(values: &mut [u64]) -> Option<u64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable(middle);
    // Of an even number, the lower of the middle two is the greatest of those below.
    let lower = if odd { upper } else { below.iter().copied().max().unwrap_or(upper) };
    Some(lower + upper)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_medians() {
        assert_eq!(twice_median(&mut []), None);
        assert_eq!(twice_median(&mut [7]), Some(14));
        assert_eq!(twice_median(&mut [1, 4]), Some(5));
        assert_eq!(twice_median(&mut [9, 1, 5]), Some(10));
    }

    proptest! {
        #[test]
        fn medians_lie_in_the_middle_of_the_sorted(mut values in prop::collection::vec(0..crate::data::VALUE_LIMIT, 1..200)) {
            let median = twice_median(&mut values);
            values.sort_unstable();
            let n = values.len();
            prop_assert_eq!(median, Some(values[(n - 1) / 2] + values[n / 2]));
        }
    }
}
