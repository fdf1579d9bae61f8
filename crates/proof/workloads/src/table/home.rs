//! The first place of a key in an array of 2^bits places.
//!
//! Neighbouring keys have neighbouring places. Keys that arrive close together, as in sequential
//! and clustered data, then share cache lines and pages, and the CPU prefetches the next ones. A
//! hash of the bits that do not fit into the array determines how far such a range of neighbours is
//! shifted, so that keys with a common stride spread as well.
//!
//! ```text
//!   key = | high bits | low bits |        home = low bits + hash(high bits)   mod 2^bits
//! ```
//!
//! Ranges may overlap. A search that finds a place taken must therefore continue in [`step`]s and
//! not at the next place; otherwise it would walk along the whole range. (CPython's dictionaries
//! combine low bits and scattered probing for the same reasons.)

/// Hash of a key: both halves of the product with an odd constant, folded.
#[must_use]
pub const fn hash(key: u64) -> u64 {
    let product = (key ^ 0x2d35_8dcc_aa6c_78a5) as u128 * 0x8bb8_4b93_962e_acc9;
    (product >> 64) as u64 ^ product as u64
}

/// The first place of `key` among 2^`bits` places, where `bits` is below 64.
#[inline]
#[must_use]
pub const fn home(key: u64, bits: u32) -> usize {
    (key.wrapping_add(hash(key >> bits)) & ((1 << bits) - 1)) as usize
}

/// The distance from each place of `key` to the next: an odd number, so that all places are visited
/// once.
#[inline]
#[must_use]
pub const fn step(key: u64) -> usize {
    hash(key) as usize | 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_lie_beside_each_other() {
        let homes: Vec<_> = (5 << 10..6 << 10).map(|key| home(key, 10)).collect();
        assert!(homes.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 1024));
        // The next range is shifted by a different distance.
        assert_ne!(home(6 << 10, 10), home(5 << 10, 10));
    }

    #[test]
    fn strides_spread() {
        for stride in (0..44).map(|bits| 1 << bits) {
            let mut keys_at = HashMap::new();
            for key in (0..1 << 15).map(|i| i * stride) {
                *keys_at.entry(home(key, 16)).or_insert(0) += 1;
            }
            // Half as many keys as places. Of random keys, up to eight would share a place. The
            // product is worse for a few strides, but never by orders of magnitude.
            assert!(keys_at.values().all(|&keys| keys < 24), "stride {stride}");
        }
    }

    proptest! {
        #[test]
        fn steps_reach_every_place(key: u64, bits in 1u32..12) {
            let places = 1usize << bits;
            let mut seen = vec![false; places];
            let mut at = home(key, bits);
            for _ in 0..places {
                prop_assert!(!std::mem::replace(&mut seen[at], true));
                at = at.wrapping_add(step(key)) & (places - 1);
            }
        }
    }
}
