//! SplitMix64, a generator of random numbers whose state is a counter.
//!
//! Source: Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014. The
//! n-th output is [`mix`] of the seed and n times [`GAMMA`].

/// The golden-ratio increment.
pub const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser: a bijection in which every input bit reaches every output bit.
#[must_use]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
