//! The aggregation: appends values to the buffers of their groups, then computes the medians.

use std::mem;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use numapilot_sys::prefetch;

use super::buffer::Buffer;
use super::group::{Group, Groups, Numbers};
use super::hot::{HotKeys, Verdict};
use super::select::twice_median;
use super::{Insertion, RUN, Values};
use crate::WorkloadError;
use crate::aggregation::{Aggregate, Options};
use crate::answer::Row;
use crate::data::Record;
use crate::table::preaggregation::Preaggregation;
use crate::table::{BATCH, Batch, Lookup, Table, View};

/// How many groups ahead buffers are prefetched when all groups are complete.
const AHEAD: usize = 8;

/// MEDIAN per group with buffers of type `B`.
#[derive(Debug)]
pub struct Median<B: Buffer> {
    table: Table,
    groups: Groups<B>,
    insertion: Insertion,
}

impl<B: Buffer> Median<B> {
    /// An aggregation without groups.
    pub fn new(options: &Options, insertion: Insertion) -> Result<Self, WorkloadError> {
        let threads = options.threads.get();
        Ok(Self {
            table: Table::new(options.estimate, threads)?,
            groups: Groups::new(options.set.groups, threads),
            insertion,
        })
    }

    /// What each thread receives before it starts, in addition to the home of its buffers.
    pub fn homes(
        &self,
        homes: impl IntoIterator<Item = B::Home>,
        options: &Options,
    ) -> Result<Vec<<Self as Aggregate>::Home>, WorkloadError> {
        homes.into_iter().map(|home| Ok((Preaggregation::new(options.estimate)?, home))).collect()
    }

    /// Adds a thread's values of one group.
    fn take_in(&self, outlet: &mut Outlet<B>, gathered: Lookup<Values>, view: &View<'_>) {
        let Lookup { key, payload } = gathered;
        if let Some(run) = payload.full() {
            match outlet.hot.note(key, run) {
                Verdict::Pass => {}
                Verdict::Collected => return,
                Verdict::Full(values) => {
                    return self.append_many(
                        key,
                        values,
                        &mut outlet.numbers,
                        &mut outlet.source,
                        view,
                    );
                }
                Verdict::Displaced { key, values } => {
                    self.append_many(key, values, &mut outlet.numbers, &mut outlet.source, view);
                }
            }
        }
        if outlet.leaving.push(gathered) {
            self.resolve(outlet, view);
        }
    }

    fn resolve(&self, outlet: &mut Outlet<B>, view: &View<'_>) {
        let Outlet { leaving, numbers, source, .. } = outlet;
        let mut found = [(0, Values::default()); BATCH];
        let mut length = 0;
        leaving.resolve(view, |entry, Lookup { key, payload: run, .. }| {
            found[length] = (self.groups.number(entry, key, numbers), run);
            length += 1;
        });
        // Headers are loaded together, then the positions of the next values, then values are
        // appended one by one.
        for &(number, _) in &found[..length] {
            prefetch::for_write(self.groups.group(number));
        }
        for &(number, _) in &found[..length] {
            prefetch::for_write(self.groups.group(number).tail.load(Relaxed));
        }
        for (number, run) in &found[..length] {
            self.append(*number, run.values(), source);
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
    fn append_many(
        &self,
        key: u64,
        values: &[u64],
        numbers: &mut Numbers,
        source: &mut B::Source,
        view: &View<'_>,
    ) {
        let home = view.home(key);
        let entry = view.entry(key, home, view.stored(home));
        self.append(self.groups.number(entry, key, numbers), values, source);
    }
}

/// The path from a thread's partial results to the groups.
#[derive(Debug)]
pub struct Outlet<B: Buffer> {
    hot: HotKeys,
    leaving: Batch<Values>,
    numbers: Numbers,
    source: B::Source,
}

impl<B: Buffer> Aggregate for Median<B> {
    type Home = (Preaggregation<RUN>, B::Home);
    type Local = (Preaggregation<RUN>, Outlet<B>);

    fn local(&self, (runs, home): Self::Home) -> Self::Local {
        let source = B::source(home);
        (runs, Outlet { hot: HotKeys::new(), leaving: Batch::new(), numbers: 0..0, source })
    }

    fn add(&self, (runs, outlet): &mut Self::Local, records: &[Record]) {
        if self.insertion == Insertion::Single {
            let (view, Outlet { numbers, source, .. }) = (self.table.view(), outlet);
            for &Record { key, value } in records {
                self.append_many(key, &[value], numbers, source, &view);
            }
            return;
        }
        if runs.is_too_small() {
            runs.drain(|run| self.take_in(outlet, run, &self.table.view()));
            runs.grow();
        }
        let view = self.table.view();
        runs.add(records, |run| self.take_in(outlet, run, &view));
    }

    fn flush(&self, (mut runs, mut outlet): Self::Local) {
        runs.drain(|run| self.take_in(&mut outlet, run, &self.table.view()));
        let view = self.table.view();
        self.resolve(&mut outlet, &view);
        let Outlet { hot, mut numbers, mut source, .. } = outlet;
        for (key, values) in hot.rest() {
            self.append_many(key, values, &mut numbers, &mut source, &view);
        }
    }

    fn finalise(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for groups in self.groups.share() {
            for (i, group) in groups.iter().enumerate() {
                if let Some(ahead) = groups.get(i + AHEAD) {
                    fetch(ahead);
                }
                // The buffer ends here: any thread may free what another one allocated.
                let mut buffer =
                    mem::take(&mut *group.values.lock().unwrap_or_else(PoisonError::into_inner));
                if let Some(value) = twice_median(buffer.values()) {
                    rows.push(Row { key: group.key.load(Relaxed), value });
                }
            }
        }
        rows
    }
}

/// Prefetches the last sixteen values of a group. For a short buffer these are all values, and
/// malloc's own word before them.
fn fetch<B>(group: &Group<B>) {
    let tail = group.tail.load(Relaxed);
    prefetch::for_write(tail.wrapping_sub(1));
    prefetch::for_write(tail.wrapping_sub(9));
}
