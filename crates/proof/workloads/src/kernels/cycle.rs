//! A walk through all slots of a power-of-two table. No prefetcher can predict it, and arithmetic
//! can follow it without the table.
//!
//! Source: Hull and Dobell 1962, "Random number generators": x -> a x + c modulo 2^k visits every
//! value once when c is odd and a is 1 modulo 4.

/// Knuth's multiplier for 64 bits (MMIX), 1 modulo 4.
const A: u64 = 6_364_136_223_846_793_005;
const C: u64 = 1_442_695_040_888_963_407;

/// The cycle over `2^k` slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    mask: u64,
}

impl Cycle {
    /// A cycle over the largest power of two that is at most `slots`.
    pub fn within(slots: usize) -> Self {
        Self { mask: (1u64 << slots.max(1).ilog2()) - 1 }
    }

    /// Number of slots.
    pub fn slots(self) -> usize {
        self.mask as usize + 1
    }

    /// A different slot for each index, at irregular distances.
    pub fn scattered(self, index: u64) -> u64 {
        let bits = self.mask.count_ones();
        let once = self.next(index);
        // Each step is invertible, so different indices give different slots.
        self.next(once ^ once >> bits.div_ceil(2))
    }

    /// The slot after this one.
    pub fn next(self, slot: u64) -> u64 {
        A.wrapping_mul(slot).wrapping_add(C) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_visited_once() {
        for slots in [1, 2, 64, 1000, 1 << 12] {
            let cycle = Cycle::within(slots);
            let mut seen = vec![false; cycle.slots()];
            let mut slot = 0;
            for _ in 0..cycle.slots() {
                assert!(!std::mem::replace(&mut seen[slot as usize], true));
                slot = cycle.next(slot);
            }
            assert_eq!(slot, 0);
            let mut all: Vec<u64> = (0..cycle.slots() as u64).map(|i| cycle.scattered(i)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..cycle.slots() as u64));
        }
    }
}
