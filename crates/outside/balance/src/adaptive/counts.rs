//! Counts which node uses which page: the counts decay, and take bounded memory.
//!
//! A page has two counts for each node. One decays with a time constant of 1 s and shows present
//! use. The other decays with 30 s and shows lasting use. When the table is full, the half with the
//! least lasting use is dropped. If new pages still exceed the room, those with the most accesses
//! are added.
//!
//! ```text
//!  keys   12  17  40   in order: an interval's pages, in order as well, are found on one way
//!  slots   2   0   1   of counts, which stay where they are when others come between
//! ```

use numapilot_sys::prefetch;

use super::fork_join::{MANY, fork_join};
use super::simd_sums::sum;
use super::sorted::{first_by_rank, seek};

const SHORT_NS: f32 = 1e9;
/// Time constant of the lasting counts.
pub const LONG_NS: u64 = 30_000_000_000;

/// Stands for the slot of a key that found no room.
pub const NO_ROOM: u32 = u32::MAX;

/// How many accesses ahead counts are prefetched: a million pages do not fit the CPU's caches.
pub const AHEAD: usize = 8;

/// Bytes of an entry in addition to its counts: key, slot, times, and a free slot.
const ENTRY_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    born_ns: u64,
    counted_ns: u64,
}

/// Decaying counts of pages or regions.
#[derive(Clone, Debug)]
pub struct Table<K> {
    nodes: usize,
    most: usize,
    keys: Vec<K>,
    /// Slot of each key.
    slots: Vec<u32>,
    free: Vec<u32>,
    times: Vec<Times>,
    /// `nodes` short counts, then `nodes` long ones, for each slot.
    counts: Vec<f32>,
    /// For each new key of an interval, the position of its first access and its number of
    /// accesses. Empty between intervals; only its memory is kept.
    fresh: Vec<(u32, u32)>,
}

/// The factors by which counts decay over a time. They are cached, because many counts were last
/// updated in the same interval.
#[derive(Clone, Copy, Debug)]
struct Fading {
    passed_ns: u64,
    by_short: f32,
    by_long: f32,
}

impl Default for Fading {
    fn default() -> Self {
        Self { passed_ns: 0, by_short: 1.0, by_long: 1.0 }
    }
}

impl Fading {
    fn after(&mut self, passed_ns: u64) -> Self {
        if passed_ns != self.passed_ns {
            let factor = |tau_ns: f32| (-(passed_ns as f32) / tau_ns).exp();
            let (by_short, by_long) = (factor(SHORT_NS), factor(LONG_NS as f32));
            *self = Self { passed_ns, by_short, by_long };
        }
        *self
    }
}

/// The counts of one page or region.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// When it was first seen.
    pub born_ns: u64,
    /// Counts of about the last second, by node.
    pub short: &'a [f32],
    /// Counts of about the last half minute, by node.
    pub long: &'a [f32],
}

impl<K: Copy + Ord + Sync> Table<K> {
    /// An empty table for this many nodes that takes at most `bytes`.
    pub fn new(nodes: usize, bytes: usize) -> Self {
        let most = bytes / (ENTRY_BYTES + 2 * nodes * size_of::<f32>());
        Self {
            nodes,
            most: most.clamp(2, u32::MAX as usize),
            keys: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            times: Vec::new(),
            counts: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Counts accesses, which are in order of their keys. `of` returns an access's key, the
    /// position of its node, and its weight. Stores the slot of each access's key, or [`NO_ROOM`].
    pub fn count<T: Sync>(
        &mut self,
        accesses: &[T],
        of: impl Fn(&T) -> (K, usize, f32) + Sync,
        slots: &mut Vec<u32>,
        now_ns: u64,
    ) {
        let key = |access: &T| of(access).0;
        self.insert_fresh(accesses, key, now_ns);
        slots.clear();
        slots.resize(accesses.len(), NO_ROOM);
        let half = accesses.len() / 2;
        let (first, second) = accesses.split_at(half);
        let (first_slots, second_slots) = slots.split_at_mut(half);
        fork_join(
            accesses.len() >= MANY,
            || self.find_all(first, key, first_slots),
            || self.find_all(second, key, second_slots),
        );
        let mut fading = Fading::default();
        for (number, (access, &slot)) in accesses.iter().zip(&*slots).enumerate() {
            // The counts of this slot are already in the cache: a region has many accesses in a
            // row.
            if let Some(&soon) = slots.get(number + AHEAD).filter(|soon| **soon != slot) {
                self.prepare(soon);
            }
            if slot == NO_ROOM {
                continue;
            }
            self.fade(slot, &mut fading, now_ns);
            let ((_, node, weight), first) = (of(access), self.range(slot).start);
            self.counts[first + node] += weight;
            self.counts[first + self.nodes + node] += weight;
        }
    }

    /// Finds the slots of keys, which are in order.
    fn find_all<T>(&self, accesses: &[T], key: impl Fn(&T) -> K, slots: &mut [u32]) {
        let (mut at, mut last) = (0, None);
        for (key, slot) in accesses.iter().map(key).zip(slots) {
            *slot = match last {
                Some((same, slot)) if same == key => slot,
                _ => self.find(&mut at, key).unwrap_or(NO_ROOM),
            };
            last = Some((key, *slot));
        }
    }

    /// Prefetches the counts of a slot.
    #[inline]
    pub fn prepare(&self, slot: u32) {
        let Some(times) = self.times.get(slot as usize) else { return };
        let counts = &self.counts[self.range(slot)];
        prefetch::for_write(times);
        prefetch::for_write(counts.as_ptr());
        if let Some(last) = counts.last() {
            prefetch::for_write(last);
        }
    }

    /// Adds the keys of these accesses, which are in order, without counting an access.
    pub fn insert_fresh<T>(&mut self, accesses: &[T], key: impl Fn(&T) -> K, now_ns: u64) {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.reserve(accesses.len());
        let (mut at, mut last) = (0, None);
        for (number, key) in (0..).zip(accesses.iter().map(&key)) {
            match fresh.last_mut() {
                Some((_, times)) if last == Some(key) => *times += 1,
                _ if seek(&self.keys, &mut at, &key, |key| key) => {}
                _ => {
                    fresh.push((number, 1));
                    last = Some(key);
                }
            }
        }
        if self.keys.len() + fresh.len() > self.most {
            // Dropping keys leaves half of them.
            let room = self.most - self.keys.len() / 2;
            fork_join(
                fresh.len() >= MANY,
                || self.forget(now_ns),
                || {
                    if fresh.len() > room {
                        let ranks = fresh.iter().map(|(_, times)| !times).collect();
                        let mut most_used = first_by_rank(ranks, room);
                        fresh.retain(|(_, times)| most_used(!times));
                    }
                },
            );
        }
        let keys = fresh.iter().map(|(number, _)| key(&accesses[*number as usize]));
        self.insert(keys, now_ns);
        fresh.clear();
        self.fresh = fresh;
    }

    /// The slot of a key, searched from `at` on. Keys must ascend from call to call.
    pub fn find(&self, at: &mut usize, key: K) -> Option<u32> {
        seek(&self.keys, at, &key, |key| key).then(|| self.slots[*at])
    }

    /// The counts of a slot as of its last update.
    pub fn known(&self, slot: u32) -> Known<'_> {
        let (short, long) = self.counts[self.range(slot)].split_at(self.nodes);
        Known { born_ns: self.times[slot as usize].born_ns, short, long }
    }

    fn range(&self, slot: u32) -> std::ops::Range<usize> {
        let width = 2 * self.nodes;
        slot as usize * width..(slot as usize + 1) * width
    }

    /// Decays the counts of a slot to now.
    fn fade(&mut self, slot: u32, fading: &mut Fading, now_ns: u64) {
        let range = self.range(slot);
        let times = &mut self.times[slot as usize];
        let passed_ns = now_ns.saturating_sub(times.counted_ns);
        if passed_ns > 0 {
            times.counted_ns = now_ns;
            let (short, long) = self.counts[range].split_at_mut(self.nodes);
            let Fading { by_short, by_long, .. } = fading.after(passed_ns);
            short.iter_mut().for_each(|count| *count *= by_short);
            long.iter_mut().for_each(|count| *count *= by_long);
        }
    }

    /// Adds new keys, which are in order.
    fn insert(
        &mut self,
        fresh: impl DoubleEndedIterator<Item = K> + ExactSizeIterator + Clone,
        now_ns: u64,
    ) {
        let (Some(first), old) = (fresh.clone().next(), self.keys.len()) else { return };
        let all = old + fresh.len();
        self.keys.reserve_exact(fresh.len());
        self.keys.resize(all, first);
        self.slots.reserve_exact(fresh.len());
        self.slots.resize(all, 0);
        // From the end, so each move finds its place free.
        let (mut from, mut to) = (old, all);
        for key in fresh.rev() {
            while from > 0 && self.keys[from - 1] > key {
                (from, to) = (from - 1, to - 1);
                self.keys[to] = self.keys[from];
                self.slots[to] = self.slots[from];
            }
            to -= 1;
            self.keys[to] = key;
            self.slots[to] = self.slot(now_ns);
        }
    }

    /// An empty slot.
    fn slot(&mut self, now_ns: u64) -> u32 {
        let times = Times { born_ns: now_ns, counted_ns: now_ns };
        if let Some(slot) = self.free.pop() {
            self.times[slot as usize] = times;
            let range = self.range(slot);
            self.counts[range].fill(0.0);
            return slot;
        }
        let slot = u32::try_from(self.times.len()).unwrap_or(u32::MAX);
        self.times.push(times);
        self.counts.resize(self.counts.len() + 2 * self.nodes, 0.0);
        slot
    }

    /// Computes how little each slot from `first` on is used; higher means less.
    fn tell_unused(&self, first: usize, unused: &mut [u32], now_ns: u64) {
        let mut fading = Fading::default();
        let counts = self.counts.chunks_exact(2 * self.nodes).skip(first);
        for ((times, counts), unused) in self.times[first..].iter().zip(counts).zip(unused) {
            let passed_ns = now_ns.saturating_sub(times.counted_ns);
            let used = sum(&counts[self.nodes..]);
            // Positive floating-point numbers compare like their bits.
            *unused = !(used * fading.after(passed_ns).by_long).to_bits();
        }
    }

    /// Drops the half with the least use.
    fn forget(&mut self, now_ns: u64) {
        // In order of slots, so that the counts are read sequentially.
        let mut unused = vec![0; self.times.len()];
        let middle = unused.len() / 2;
        let (first, second) = unused.split_at_mut(middle);
        fork_join(
            middle >= MANY,
            || self.tell_unused(0, first, now_ns),
            || self.tell_unused(middle, second, now_ns),
        );
        // Positions in order of keys: among equals the lower key stays.
        let half = self.keys.len() / 2;
        let ranks = self.slots.iter().map(|slot| unused[*slot as usize]).collect();
        let mut stays = first_by_rank(ranks, half);
        let (mut kept, mut free) = (0, vec![true; self.times.len()]);
        for at in 0..self.keys.len() {
            let slot = self.slots[at];
            if stays(unused[slot as usize]) {
                self.keys[kept] = self.keys[at];
                self.slots[kept] = slot;
                free[slot as usize] = false;
                kept += 1;
            }
        }
        self.keys.truncate(kept);
        self.slots.truncate(kept);
        // New keys come in order. Their counts get slots in order as well, so that an interval
        // reads memory sequentially.
        self.free.clear();
        self.free.extend((0u32..).zip(free).filter(|(_, free)| *free).map(|(slot, _)| slot));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn get(table: &Table<u64>, key: u64) -> Option<Known<'_>> {
        table.find(&mut 0, key).map(|slot| table.known(slot))
    }

    fn count(table: &mut Table<u64>, accesses: &[(u64, usize)], now_ns: u64) -> Vec<u32> {
        let mut slots = Vec::new();
        table.count(accesses, |(key, node)| (*key, *node, 1.0), &mut slots, now_ns);
        slots
    }

    #[test]
    fn counts_fade_at_two_rates() {
        let mut table = Table::new(2, 1 << 20);
        count(&mut table, &[(7u64, 0)], 0);
        count(&mut table, &[(7, 1), (7, 1)], 1_000_000_000);
        let known = get(&table, 7).unwrap();
        assert!((known.short[0] - (-1f32).exp()).abs() < 1e-6, "{known:?}");
        assert!((known.long[0] - (-1f32 / 30.0).exp()).abs() < 1e-6, "{known:?}");
        assert_eq!((known.short[1], known.long[1], known.born_ns), (2.0, 2.0, 0));
        assert!(get(&table, 8).is_none());
    }

    #[test]
    fn a_full_table_forgets_what_is_used_least() {
        let mut table = Table::new(1, 40 * 4);
        let often = |key: u64| std::iter::repeat_n((key, 0), key as usize + 1);
        count(&mut table, &(0..4u64).flat_map(often).collect::<Vec<_>>(), 0);
        count(&mut table, &[(100, 0)], 0);
        let kept: Vec<u64> = (0..101).filter(|key| get(&table, *key).is_some()).collect();
        assert_eq!(kept, [2, 3, 100]);
        // With more keys than there is room for, the most used are kept.
        let many = (200..300u64).flat_map(|key| often(key - 200)).map(|(key, _)| (key + 200, 0));
        count(&mut table, &many.collect::<Vec<_>>(), 0);
        let kept: Vec<u64> = (0..300).filter(|key| get(&table, *key).is_some()).collect();
        assert_eq!(kept, [3, 297, 298, 299]);
    }

    #[test]
    fn many_are_counted_like_few() {
        let accesses: Vec<(u64, usize)> =
            (0..2 * MANY as u64).map(|at| (at / 3 * 7, (at % 5 % 2) as usize)).collect();
        let (mut all, mut parts) = (Table::new(2, 32 << 20), Table::new(2, 32 << 20));
        let slots = count(&mut all, &accesses, 0);
        accesses.chunks(999).for_each(|part| drop(count(&mut parts, part, 0)));
        assert!(all.keys == parts.keys);
        for ((key, _), slot) in accesses.iter().zip(slots) {
            assert_eq!(all.known(slot).long, get(&parts, *key).unwrap().long, "{key}");
        }
    }

    proptest! {
        /// The table agrees with a map and stays within its memory.
        #[test]
        fn nothing_is_mixed_up(
            intervals in proptest::collection::vec(proptest::collection::vec((0u64..500, 0usize..3), 0..80), 1..20),
            roomy: bool,
        ) {
            let bytes = if roomy { 1 << 20 } else { 4 << 10 };
            let mut table = Table::new(3, bytes);
            let mut expected = std::collections::BTreeMap::<u64, [f32; 3]>::new();
            for mut accesses in intervals {
                accesses.sort_unstable();
                // All counts are at one time, so nothing decays.
                let slots = count(&mut table, &accesses, 5);
                let found = accesses.iter().map(|(key, _)| table.find(&mut 0, *key).unwrap_or(NO_ROOM));
                prop_assert!(found.eq(slots));
                for (key, node) in accesses {
                    expected.entry(key).or_default()[node] += 1.0;
                }
                let used = table.keys.capacity() * 12 + table.free.len() * 4 + table.times.len() * 16 + table.counts.len() * 4;
                prop_assert!(used <= bytes, "{used}");
                prop_assert!(table.keys.is_sorted_by(|a, b| a < b));
                for (key, counts) in &expected {
                    let known = get(&table, *key).map(|known| known.long.to_vec());
                    prop_assert!(known.as_deref() == Some(counts) || !roomy);
                }
            }
            let mut slots = [table.slots.clone(), table.free.clone()].concat();
            slots.sort_unstable();
            prop_assert!(slots.iter().map(|slot| *slot as usize).eq(0..table.times.len()));
        }
    }
}
