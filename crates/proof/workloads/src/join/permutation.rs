//! A permutation of `0..n` whose i-th element is computed from i alone: any slice of a
//! shuffled table can be generated where it will be read.
//!
//! Rounds of steps that are each a bijection of k-bit numbers (exclusive or, multiplication
//! by an odd number, xor with the own upper half), k bits being as many as n needs; what
//! falls outside `0..n` goes through the rounds again until it does not ("cycle walking",
//! Black and Rogaway: "Ciphers with arbitrary finite domains", 2002). Since 2^k is below
//! 2 n, that is less than one more pass on average.

use crate::random::Draws;

/// Enough for every bit to reach every other several times over.
const ROUNDS: usize = 4;

/// One of many permutations of `0..n`.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    /// What is xored, and the odd number multiplied by.
    rounds: [(u64, u64); ROUNDS],
}

impl Permutation {
    /// The permutation number `stream` under `seed`; `n` is at least 1.
    #[must_use]
    pub fn new(n: u64, seed: u64, stream: u64) -> Self {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(1);
        let mut draws = Draws::of(seed, stream);
        let rounds = std::array::from_fn(|_| (draws.next(), draws.next() | 1));
        Self { n, mask: u64::MAX >> (64 - bits), shift: bits.div_ceil(2), rounds }
    }

    /// Element `index`, which must be below n.
    #[inline]
    #[must_use]
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.n, "outside of the permutation");
        let mut x = index;
        loop {
            for (flip, factor) in self.rounds {
                x = (x ^ flip).wrapping_mul(factor) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(n: u64, seed: u64, stream: u64) -> Vec<u64> {
        let permutation = Permutation::new(n, seed, stream);
        (0..n).map(|i| permutation.at(i)).collect()
    }

    proptest! {
        #[test]
        fn every_number_comes_once(n in 1u64..3_000, seed: u64, stream: u64) {
            let mut seen = all(n, seed, stream);
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..n));
        }

        #[test]
        fn large_ranges_are_kept(n in 1u64.., seed: u64, index: u64) {
            prop_assert!(Permutation::new(n, seed, 0).at(index % n) < n);
        }
    }

    #[test]
    fn streams_and_seeds_differ() {
        assert_ne!(all(100, 1, 0), all(100, 1, 1));
        assert_ne!(all(100, 1, 0), all(100, 2, 0));
    }

    /// A random permutation of n has (n - 1) / 2 ascents with variance (n + 1) / 12, and
    /// one fixed point on average.
    #[test]
    fn neighbours_are_in_no_order() {
        for n in [10_000u64, 65_536, 100_003] {
            let permutation = all(n, 7, 3);
            let ascents = permutation.windows(2).filter(|pair| pair[0] < pair[1]).count();
            let off = (ascents as f64 - (n - 1) as f64 / 2.0) / ((n + 1) as f64 / 12.0).sqrt();
            assert!(off.abs() < 5.0, "{n}: {off:.1} deviations");
            let fixed = permutation.iter().zip(0..).filter(|(a, b)| **a == *b).count();
            assert!(fixed < 10, "{n}: {fixed} fixed points");
        }
    }

    #[test]
    fn an_element_goes_everywhere() {
        let mut seen = [0u32; 16];
        for stream in 0..16_000 {
            seen[(Permutation::new(1_600, 5, stream).at(3) / 100) as usize] += 1;
        }
        // Expected 1000 each, standard deviation 31.
        assert!(seen.iter().all(|n| n.abs_diff(1_000) < 155), "{seen:?}");
    }
}
