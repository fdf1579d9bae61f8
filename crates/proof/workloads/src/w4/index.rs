//! The indexes: one crate each, behind the same two operations.
//!
//! All allocate from the process's `malloc`. Keys are unique, like those of a primary key. An epoch
//! or guard is entered once per morsel, as an engine does once per batch.

use congee::Congee;
use crossbeam_epoch as epoch;
use masstree::MassTree15Inline;
use scc::TreeIndex;

use crate::data::Record;
use crate::join::{Matcher, Refused};

/// Keys and payloads as words: `usize` has 64 bits on every supported machine.
#[derive(Default)]
pub struct Art(Congee<usize, usize>);

impl Matcher for Art {
    fn build(&self, tuples: &[Record]) -> Result<(), Refused> {
        let guard = self.0.pin();
        for tuple in tuples {
            let inserted = self.0.insert(tuple.key as usize, tuple.value as usize, &guard);
            inserted.map_err(|_| Refused)?;
        }
        Ok(())
    }

    fn probe(&self, tuples: &[Record], mut found: impl FnMut(u64, u64)) {
        let guard = self.0.pin();
        for tuple in tuples {
            if let Some(payload) = self.0.get(&(tuple.key as usize), &guard) {
                found(payload as u64, tuple.value);
            }
        }
    }
}

/// Keys as eight bytes in numeric order (big endian).
#[derive(Default)]
pub struct Masstree(MassTree15Inline<u64>);

impl Matcher for Masstree {
    fn build(&self, tuples: &[Record]) -> Result<(), Refused> {
        let guard = self.0.guard();
        for tuple in tuples {
            self.0.insert_with_guard(&tuple.key.to_be_bytes(), tuple.value, &guard);
        }
        Ok(())
    }

    fn probe(&self, tuples: &[Record], mut found: impl FnMut(u64, u64)) {
        let guard = self.0.guard();
        for tuple in tuples {
            if let Some(payload) = self.0.get_with_guard(&tuple.key.to_be_bytes(), &guard) {
                found(payload, tuple.value);
            }
        }
    }
}

/// Without reference counts, which every look-up would write.
pub struct SkipList(crossbeam_skiplist::SkipList<u64, u64>);

impl Default for SkipList {
    fn default() -> Self {
        Self(crossbeam_skiplist::SkipList::new(epoch::default_collector().clone()))
    }
}

impl Matcher for SkipList {
    fn build(&self, tuples: &[Record]) -> Result<(), Refused> {
        let guard = epoch::pin();
        for tuple in tuples {
            self.0.insert(tuple.key, tuple.value, &guard).release(&guard);
        }
        Ok(())
    }

    fn probe(&self, tuples: &[Record], mut found: impl FnMut(u64, u64)) {
        let guard = epoch::pin();
        for tuple in tuples {
            if let Some(entry) = self.0.get(&tuple.key, &guard) {
                found(*entry.value(), tuple.value);
            }
        }
    }
}

/// The B+ tree.
#[derive(Default)]
pub struct BTree(TreeIndex<u64, u64>);

impl Matcher for BTree {
    fn build(&self, tuples: &[Record]) -> Result<(), Refused> {
        for tuple in tuples {
            // Only a duplicate key is refused; the check would find a missing one.
            let _ = self.0.insert_sync(tuple.key, tuple.value);
        }
        Ok(())
    }

    fn probe(&self, tuples: &[Record], mut found: impl FnMut(u64, u64)) {
        let guard = scc::Guard::new();
        for tuple in tuples {
            if let Some(payload) = self.0.peek(&tuple.key, &guard) {
                found(*payload, tuple.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Four threads build over interleaved keys. All keys are found, and no others.
    fn keeps_what_threads_put_into_it(index: impl Matcher + Default) {
        let tuples: Vec<Record> = (1..=40_000).map(|key| Record { key, value: key * 3 }).collect();
        let parts: Vec<Vec<Record>> =
            (0..4).map(|part| tuples.iter().skip(part).step_by(4).copied().collect()).collect();
        thread::scope(|scope| {
            for part in &parts {
                let index = &index;
                scope.spawn(move || index.build(part).unwrap());
            }
        });
        let asked: Vec<Record> = (0..=50_000).map(|key| Record { key, value: key }).collect();
        let mut found = Vec::new();
        index.probe(&asked, |small, large| found.push((small, large)));
        assert!(found.into_iter().eq((1..=40_000).map(|key| (key * 3, key))));
    }

    #[test]
    fn every_index_keeps_what_threads_put_into_it() {
        keeps_what_threads_put_into_it(Art::default());
        keeps_what_threads_put_into_it(Masstree::default());
        keeps_what_threads_put_into_it(SkipList::default());
        keeps_what_threads_put_into_it(BTree::default());
    }
}
