//! Counter-based random numbers. The draws of record `i` depend only on the seed and on `i`, so any
//! number of threads generates the same data in any order.
//!
//! Source: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
//! 2014). Its n-th output is a function of the seed and n.

use numapilot_sys::splitmix::GAMMA;
pub use numapilot_sys::splitmix::mix;

/// The stream of draws for one record.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The stream of record `index` under `seed`.
    #[must_use]
    pub const fn of(seed: u64, index: u64) -> Self {
        Self(mix(seed ^ mix(index.wrapping_mul(GAMMA))))
    }

    /// 64 uniform bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// Uniform in `0..n`; `0` when `n` is 0. Uses multiplication (Lemire 2019). The bias is below n
    /// / 2^64, far less than any sample here can show.
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }

    /// Uniform in `[0, 1)`, with all 53 bits of the mantissa.
    pub const fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_is_reproduced() {
        // First outputs of SplitMix64 seeded with 0, as printed by the reference program.
        let mut draws = Draws(0);
        assert_eq!(draws.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(draws.next(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(draws.next(), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut seen = [0u32; 10];
        for i in 0..100_000 {
            seen[Draws::of(7, i).below(10) as usize] += 1;
        }
        // The standard deviation is 95; this allows five of them.
        assert!(seen.iter().all(|n| n.abs_diff(10_000) < 475), "{seen:?}");
        assert_eq!(Draws::of(7, 0).below(0), 0);
        assert_eq!(Draws::of(7, 0).below(1), 0);
    }
}
