//! Notices the keys that occur again and again and collects their values, so that a heavy
//! hitter's lock is taken once per [`RUN`] values and not once per value.
//!
//! A line per hash watches one key at a time: its credit rises with every occurrence and
//! falls with every other key of the line, which takes over at zero (the majority vote of
//! Boyer and Moore, per line). Values are collected at a credit of [`HOT`], which only a
//! key that holds more than half of its line's traffic can reach and keep.

/// Lines; their state takes 4 KiB of a first-level cache.
const LINES: usize = 256;
/// Occurrences above those of all other keys of the line, from which on values are collected.
const HOT: u32 = 32;
/// Highest credit: a key that is no longer frequent loses its line after so many others.
const LIMIT: u32 = 64;
/// Values collected before they are handed over.
pub const RUN: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    key: u64,
    credit: u32,
    collected: u32,
}

/// What to do with a value.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Append it to its group.
    Pass,
    /// Nothing: it was collected.
    Collected,
    /// Append these to its group, it among them.
    Full(&'a [u64]),
    /// Append it to its group, and these to that of `key`, which is no longer watched.
    Displaced {
        /// The key that was watched.
        key: u64,
        /// Its values.
        run: &'a [u64],
    },
}

/// The watch of one thread.
#[derive(Debug)]
pub struct HotKeys {
    lines: Box<[Line; LINES]>,
    runs: Box<[[u64; RUN]]>,
}

impl HotKeys {
    /// Watches nothing yet.
    pub fn new() -> Self {
        Self {
            lines: Box::new([Line::default(); LINES]),
            runs: vec![[0; RUN]; LINES].into_boxed_slice(),
        }
    }

    /// Takes note of a record.
    #[inline]
    pub fn note(&mut self, key: u64, hash: u64, value: u64) -> Verdict<'_> {
        let at = hash as usize % LINES;
        let line = &mut self.lines[at];
        if line.key != key {
            let free = line.credit == 0;
            let old = line.key;
            line.key = if free { key } else { old };
            line.credit = if free { 1 } else { line.credit - 1 };
            if free && line.collected > 0 {
                let run = &self.runs[at][..line.collected as usize];
                line.collected = 0;
                return Verdict::Displaced { key: old, run };
            }
            return Verdict::Pass;
        }
        line.credit = (line.credit + 1).min(LIMIT);
        if line.credit < HOT && line.collected == 0 {
            return Verdict::Pass;
        }
        self.runs[at][line.collected as usize % RUN] = value;
        line.collected += 1;
        if (line.collected as usize) < RUN {
            return Verdict::Collected;
        }
        line.collected = 0;
        Verdict::Full(&self.runs[at])
    }

    /// Keys whose values have been collected but not handed over, and these.
    pub fn rest(&self) -> impl Iterator<Item = (u64, &[u64])> {
        let lines = self.lines.iter().zip(&self.runs);
        lines
            .map(|(line, run)| (line.key, &run[..line.collected as usize]))
            .filter(|(_, run)| !run.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::hash;

    /// Passes records through a watch; returns all of them as they came out, and in how
    /// many portions.
    fn pass(records: &[(u64, u64)]) -> (Vec<(u64, u64)>, usize) {
        let mut hot = HotKeys::new();
        let (mut out, mut portions) = (Vec::new(), 0);
        for &(key, value) in records {
            match hot.note(key, hash(key), value) {
                Verdict::Pass => out.push((key, value)),
                Verdict::Collected => continue,
                Verdict::Full(run) => out.extend(run.iter().map(|&v| (key, v))),
                Verdict::Displaced { key: old, run } => {
                    out.extend(run.iter().map(|&v| (old, v)));
                    out.push((key, value));
                    portions += 1;
                }
            }
            portions += 1;
        }
        for (key, run) in hot.rest() {
            out.extend(run.iter().map(|&v| (key, v)));
            portions += 1;
        }
        out.sort_unstable();
        (out, portions)
    }

    #[test]
    fn a_heavy_hitter_comes_in_runs() {
        let records: Vec<_> = (0..64_000).map(|i| (if i % 2 == 0 { 5 } else { i }, i)).collect();
        let (_, portions) = pass(&records);
        // 32,000 single ones, 500 runs of 64, and the single ones before the key was hot.
        assert!((32_500..32_700).contains(&portions), "{portions} portions");
    }

    #[test]
    fn rare_keys_pass_at_once() {
        let records: Vec<_> = (0..10_000).map(|i| (i % 5_000, i)).collect();
        assert_eq!(pass(&records).1, 10_000);
    }

    #[test]
    fn a_key_that_was_hot_makes_room() {
        let run = |key| (0..1_000).map(move |i| (key, i));
        // Many keys of which each is hot for a while, then a last one.
        let records: Vec<_> = (0..2_000).flat_map(run).collect();
        let (out, portions) = pass(&records);
        assert_eq!(out.len(), records.len());
        // Per key: single values until it has displaced the one before it and is hot, and
        // then runs.
        assert!(portions < 2_000 * (LIMIT + HOT + 1_000 / RUN as u32 + 2) as usize);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(keys in prop::collection::vec(0u64..2_000, 0..3_000), heavy in 1u64..6) {
            let mut records: Vec<_> = keys
                .iter()
                .enumerate()
                .map(|(i, &key)| (if (i as u64).is_multiple_of(heavy) { 3 } else { key }, i as u64))
                .collect();
            let (out, _) = pass(&records);
            records.sort_unstable();
            prop_assert_eq!(out, records);
        }
    }
}
