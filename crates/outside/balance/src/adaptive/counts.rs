//! Who uses which page: counts that fade, in bounded memory.
//!
//! A page has one count for each node that fades with a time constant of 1 s, which shows
//! what is, and one with 30 s, which shows what lasts. When the table is full the half with
//! the least lasting use is forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

const SHORT_NS: f32 = 1e9;
/// Time constant of the counts that last.
pub const LONG_NS: u64 = 30_000_000_000;

/// Bytes of an entry beside its counts: number, times, and its place in the index, which is
/// at least 7/16 full.
const ENTRY_BYTES: usize = 64;

/// Hashes one number: page numbers are no secret worth the time of a keyed hash.
#[derive(Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing, with the high bits brought down to where tables look.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

/// A map from pages or regions.
pub type PageMap<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    key: K,
    born_ns: u64,
    counted_ns: u64,
}

/// Fading counts of pages or regions.
#[derive(Clone, Debug)]
pub struct Table<K> {
    nodes: usize,
    most: usize,
    index: PageMap<K, u32>,
    entries: Vec<Entry<K>>,
    /// `nodes` short counts, then `nodes` long ones, for each entry.
    counts: Vec<f32>,
}

/// What is known of one page or region.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// When it was first seen.
    pub born_ns: u64,
    /// Counts of about the last second, by node.
    pub short: &'a [f32],
    /// Counts of about the last half minute, by node.
    pub long: &'a [f32],
}

impl<K: Copy + Eq + Ord + Hash> Table<K> {
    /// An empty table for a machine of so many nodes that takes at most so many bytes.
    pub fn new(nodes: usize, bytes: usize) -> Self {
        Self {
            nodes,
            most: (bytes / (ENTRY_BYTES + 2 * nodes * size_of::<f32>())).max(2),
            index: PageMap::default(),
            entries: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Counts an access by the node at this position. Whether the page was known before.
    pub fn add(&mut self, key: K, node: usize, now_ns: u64) -> bool {
        let known = self.index.contains_key(&key);
        let at = self.entry(key, now_ns);
        let counts = &mut self.counts[at * 2 * self.nodes..][..2 * self.nodes];
        counts[node] += 1.0;
        counts[self.nodes + node] += 1.0;
        known
    }

    /// Makes it known without an access.
    pub fn meet(&mut self, key: K, now_ns: u64) -> bool {
        let known = self.index.contains_key(&key);
        self.entry(key, now_ns);
        known
    }

    /// What is known of a page that was counted in this interval.
    pub fn get(&self, key: K) -> Option<Known<'_>> {
        let at = *self.index.get(&key)? as usize;
        let counts = &self.counts[at * 2 * self.nodes..][..2 * self.nodes];
        let (short, long) = counts.split_at(self.nodes);
        Some(Known { born_ns: self.entries[at].born_ns, short, long })
    }

    /// The place of a page, its counts faded to now.
    fn entry(&mut self, key: K, now_ns: u64) -> usize {
        if let Some(&at) = self.index.get(&key) {
            let at = at as usize;
            let passed = now_ns.saturating_sub(self.entries[at].counted_ns);
            if passed > 0 {
                self.entries[at].counted_ns = now_ns;
                let counts = &mut self.counts[at * 2 * self.nodes..][..2 * self.nodes];
                let (short, long) = counts.split_at_mut(self.nodes);
                let fade = |counts: &mut [f32], tau: f32| {
                    let factor = (-(passed as f32) / tau).exp();
                    counts.iter_mut().for_each(|count| *count *= factor);
                };
                fade(short, SHORT_NS);
                fade(long, LONG_NS as f32);
            }
            return at;
        }
        if self.entries.len() >= self.most {
            self.forget(now_ns);
        }
        let at = self.entries.len();
        self.index.insert(key, u32::try_from(at).unwrap_or(u32::MAX));
        self.entries.push(Entry { key, born_ns: now_ns, counted_ns: now_ns });
        self.counts.resize(self.counts.len() + 2 * self.nodes, 0.0);
        at
    }

    /// Drops the half with the least use.
    fn forget(&mut self, now_ns: u64) {
        let width = 2 * self.nodes;
        let use_of = |at: usize| {
            let long = &self.counts[at * width + self.nodes..][..self.nodes];
            let passed = now_ns.saturating_sub(self.entries[at].counted_ns) as f32;
            long.iter().sum::<f32>() * (-passed / LONG_NS as f32).exp()
        };
        let mut order: Vec<(f32, K, usize)> =
            (0..self.entries.len()).map(|at| (use_of(at), self.entries[at].key, at)).collect();
        let half = order.len() / 2;
        order.select_nth_unstable_by(half, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut kept: Vec<usize> = order[..half].iter().map(|(_, _, at)| *at).collect();
        kept.sort_unstable();
        self.index.clear();
        for (to, &from) in kept.iter().enumerate() {
            self.entries[to] = self.entries[from];
            self.counts.copy_within(from * width..(from + 1) * width, to * width);
            self.index.insert(self.entries[to].key, u32::try_from(to).unwrap_or(u32::MAX));
        }
        self.entries.truncate(half);
        self.counts.truncate(half * width);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_fade_at_two_rates() {
        let mut table = Table::new(2, 1 << 20);
        assert!(!table.add(7u64, 0, 0));
        assert!(table.add(7, 1, 1_000_000_000));
        let known = table.get(7).unwrap();
        assert!((known.short[0] - (-1f32).exp()).abs() < 1e-6, "{known:?}");
        assert!((known.long[0] - (-1f32 / 30.0).exp()).abs() < 1e-6, "{known:?}");
        assert_eq!((known.short[1], known.long[1], known.born_ns), (1.0, 1.0, 0));
        assert!(table.get(8).is_none());
    }

    #[test]
    fn a_full_table_forgets_what_is_used_least() {
        let mut table = Table::new(1, 80 * 4);
        for key in 0..4u64 {
            for _ in 0..=key {
                table.add(key, 0, 0);
            }
        }
        let most = table.len() as u64;
        table.add(100, 0, 0);
        assert!(
            table.get(most - 1).is_some() && table.get(0).is_none() && table.get(100).is_some()
        );
    }

    proptest! {
        #[test]
        fn memory_is_bounded(keys in proptest::collection::vec(0u64..10_000, 0..2000), nodes in 1usize..9) {
            let bytes = 16 << 10;
            let mut table = Table::new(nodes, bytes);
            for (at, &key) in keys.iter().enumerate() {
                table.add(key, at % nodes, at as u64);
                prop_assert!(table.get(key).is_some());
                let used = table.entries.len() * size_of::<Entry<u64>>()
                    + table.counts.len() * 4 + table.index.len() * 16 * 16 / 7;
                prop_assert!(used <= bytes, "{used}");
            }
        }
    }
}
