//! Detects keys whose runs are full repeatedly, and collects these runs. The lock of a heavy hitter
//! is then taken once per [`COLLECTION`] runs instead of once per run.
//!
//! There is a line per hash, which watches one key at a time. Its credit rises with every run of
//! that key, and falls with every run of another key of the line. At zero the other key takes over
//! (the majority vote of Boyer and Moore, per line). Runs are collected at a credit of [`HOT`],
//! which only a key with more than half of the line's traffic can reach and keep.

use super::RUN;
use crate::table::hash;

/// Number of lines; their state takes 4 KiB of a first-level cache.
const LINES: usize = 256;
/// Runs are collected once a key has this many more than all other keys of the line.
const HOT: u32 = 32;
/// Highest credit: a key that is no longer frequent loses its line after this many other runs.
const LIMIT: u32 = 64;
/// Number of runs collected before they are appended.
pub const COLLECTION: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    key: u64,
    credit: u32,
    collected: u32,
}

/// What to do with a run.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Append it to its group.
    Pass,
    /// Nothing: the run was collected.
    Collected,
    /// Append these values to its group; the run's own are among them.
    Full(&'a [u64]),
    /// Append it to its group, and these values to the group of `key`, which is no longer watched.
    Displaced {
        /// The key that was watched.
        key: u64,
        /// Its values.
        values: &'a [u64],
    },
}

/// The watched keys of one thread.
#[derive(Debug)]
pub struct HotKeys {
    lines: Box<[Line; LINES]>,
    collections: Box<[[[u64; RUN]; COLLECTION]]>,
}

impl HotKeys {
    /// Watches no key yet.
    pub fn new() -> Self {
        Self {
            lines: Box::new([Line::default(); LINES]),
            collections: vec![[[0; RUN]; COLLECTION]; LINES].into_boxed_slice(),
        }
    }

    /// Records a full run.
    #[inline]
    pub fn note(&mut self, key: u64, run: [u64; RUN]) -> Verdict<'_> {
        let at = hash(key) as usize % LINES;
        let line = &mut self.lines[at];
        let collection = &mut self.collections[at];
        if line.key != key {
            let free = line.credit == 0;
            let old = line.key;
            line.key = if free { key } else { old };
            line.credit = if free { 1 } else { line.credit - 1 };
            if free && line.collected > 0 {
                let values = collection[..line.collected as usize].as_flattened();
                line.collected = 0;
                return Verdict::Displaced { key: old, values };
            }
            return Verdict::Pass;
        }
        line.credit = (line.credit + 1).min(LIMIT);
        if line.credit < HOT && line.collected == 0 {
            return Verdict::Pass;
        }
        collection[line.collected as usize % COLLECTION] = run;
        line.collected += 1;
        if (line.collected as usize) < COLLECTION {
            return Verdict::Collected;
        }
        line.collected = 0;
        Verdict::Full(collection.as_flattened())
    }

    /// Keys with collected runs that were not yet appended, and their values.
    pub fn rest(&self) -> impl Iterator<Item = (u64, &[u64])> {
        let lines = self.lines.iter().zip(&self.collections);
        lines
            .map(|(line, runs)| (line.key, runs[..line.collected as usize].as_flattened()))
            .filter(|(_, values)| !values.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Passes one run per key through a watch. Returns how often each key came out with each of its
    /// values, and the number of portions.
    fn pass(keys: &[u64]) -> (Vec<(u64, u64)>, usize) {
        let mut hot = HotKeys::new();
        let (mut out, mut portions) = (Vec::new(), 0);
        for (&key, run) in keys.iter().zip(runs()) {
            match hot.note(key, run) {
                Verdict::Pass => out.extend(run.map(|v| (key, v))),
                Verdict::Collected => continue,
                Verdict::Full(values) => out.extend(values.iter().map(|&v| (key, v))),
                Verdict::Displaced { key: old, values } => {
                    out.extend(values.iter().map(|&v| (old, v)));
                    out.extend(run.map(|v| (key, v)));
                    portions += 1;
                }
            }
            portions += 1;
        }
        for (key, values) in hot.rest() {
            out.extend(values.iter().map(|&v| (key, v)));
            portions += 1;
        }
        out.sort_unstable();
        (out, portions)
    }

    /// An endless sequence of runs in which all values are different.
    fn runs() -> impl Iterator<Item = [u64; RUN]> {
        (0..).map(|i| std::array::from_fn(|j| i * RUN as u64 + j as u64))
    }

    #[test]
    fn a_heavy_hitter_comes_in_collections() {
        let keys: Vec<_> = (0..64_000).map(|i| if i % 2 == 0 { 5 } else { i }).collect();
        let (_, portions) = pass(&keys);
        // 32,000 single runs, 2,000 collections of 16, and those before the key was hot.
        assert!((34_000..34_200).contains(&portions), "{portions} portions");
    }

    #[test]
    fn rare_keys_pass_at_once() {
        let keys: Vec<_> = (0..10_000).map(|i| i % 5_000).collect();
        assert_eq!(pass(&keys).1, 10_000);
    }

    #[test]
    fn a_key_that_was_hot_makes_room() {
        // Many keys that are each hot for a while, then a last one.
        let keys: Vec<_> = (0..2_000).flat_map(|key| [key; 1_000]).collect();
        let (out, portions) = pass(&keys);
        assert_eq!(out.len(), keys.len() * RUN);
        // Per key: single runs until it has displaced the previous one and is hot, and then
        // collections.
        assert!(portions < 2_000 * (LIMIT + HOT + 1_000 / COLLECTION as u32 + 2) as usize);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(keys in prop::collection::vec(0u64..2_000, 0..3_000), heavy in 1u64..6) {
            let heavy_or = |(i, key)| if (i as u64).is_multiple_of(heavy) { 3 } else { key };
            let keys: Vec<_> = keys.into_iter().enumerate().map(heavy_or).collect();
            let (out, _) = pass(&keys);
            let all = keys.iter().zip(runs()).flat_map(|(&key, run)| run.map(|v| (key, v)));
            let mut all: Vec<_> = all.collect();
            all.sort_unstable();
            prop_assert_eq!(out, all);
        }
    }
}
