//! Random words.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::os::kernel;

/// A random word (xorshift64*, Vigna 2016), from a seed that differs between runs.
pub fn word() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let mut state = STATE.load(Ordering::Relaxed);
    if state == 0 {
        state = kernel::random_seed() | 1;
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    // Threads that get here at the same time get the same word, which does no harm.
    STATE.store(state, Ordering::Relaxed);
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

/// An exponentially distributed number with this mean, below 2^32, rounded up.
///
/// It uses von Neumann's comparisons ("Various techniques used in connection with random digits",
/// 1951), which need no logarithm. Of falling sequences of uniform numbers, the first one of odd
/// length gives its first number, and every earlier one adds 1.
pub fn exponential(mean: u64, mut uniform: impl FnMut() -> u64) -> u64 {
    let mut whole = 0;
    loop {
        let first = uniform();
        let (mut last, mut length) = (first, 1_u32);
        loop {
            let next = uniform();
            if next >= last {
                break;
            }
            last = next;
            length += 1;
        }
        if length % 2 == 1 {
            let fraction = (u128::from(mean) * u128::from(first)) >> 64;
            return mean * whole + fraction as u64 + 1;
        }
        whole += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_are_exponential() {
        const MEAN: u64 = 1_000_000;
        const DRAWS: u64 = 200_000;
        let (mut sum, mut beyond) = (0, [0_u64; 4]);
        let mut state = 1_u64;
        let mut uniform = || {
            // splitmix64 (Steele, Lea, Flood 2014): the same numbers in every run.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        for _ in 0..DRAWS {
            let draw = exponential(MEAN, &mut uniform);
            sum += draw;
            for (n, count) in (1..).zip(&mut beyond) {
                *count += u64::from(draw > n * MEAN);
            }
        }
        let mean = sum as f64 / DRAWS as f64 / MEAN as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        for (n, count) in (1..).zip(beyond) {
            let (share, expected) = (count as f64 / DRAWS as f64, (-f64::from(n)).exp());
            assert!((share / expected - 1.0).abs() < 0.05, "beyond {n}: {share}, {expected}");
        }
    }
}
