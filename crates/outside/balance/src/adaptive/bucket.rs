//! A token bucket that limits the bytes that may be moved.
//!
//! Moving takes memory bandwidth and stops the users of the page meanwhile. A limit on the rate
//! bounds the cost of a wrong decision.

/// The bucket. It holds the tokens of one second, and is full at first.
#[derive(Clone, Debug)]
pub struct Bucket {
    bytes_per_second: u64,
    bytes: u64,
    filled_ns: Option<u64>,
}

impl Bucket {
    pub const fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, bytes: bytes_per_second, filled_ns: None }
    }

    /// Adds the tokens of the time since the last call.
    pub fn fill(&mut self, now_ns: u64) {
        let passed = self.filled_ns.map_or(0, |before| now_ns.saturating_sub(before));
        let come = u128::from(passed) * u128::from(self.bytes_per_second) / 1_000_000_000;
        let come = u64::try_from(come).unwrap_or(u64::MAX);
        // A fraction of a byte is not lost: it is added with the next tokens.
        if come > 0 || self.filled_ns.is_none() {
            self.filled_ns = Some(now_ns);
        }
        self.bytes = self.bytes.saturating_add(come).min(self.bytes_per_second);
    }

    /// The tokens in the bucket.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes tokens. Returns whether there were enough.
    pub fn take_tokens(&mut self, bytes: u64) -> bool {
        let enough = self.bytes >= bytes;
        if enough {
            self.bytes -= bytes;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_second_fills_it() {
        let mut bucket = Bucket::new(1000);
        bucket.fill(0);
        assert!(bucket.take_tokens(1000) && !bucket.take_tokens(1));
        bucket.fill(500_000_000);
        assert!(!bucket.take_tokens(501) && bucket.take_tokens(500));
    }

    proptest! {
        #[test]
        fn every_window_is_within_the_budget(
            rate in 1u64..10_000, takes in proptest::collection::vec((0u64..2_000_000_000, 0u64..5_000), 1..100)
        ) {
            let mut bucket = Bucket::new(rate);
            let (mut now, mut taken) = (0u64, Vec::new());
            for (passed, bytes) in takes {
                now += passed;
                bucket.fill(now);
                if bucket.take_tokens(bytes) {
                    taken.push((now, bytes));
                }
            }
            for (first, &(from, _)) in taken.iter().enumerate() {
                let mut sum = 0;
                for &(until, bytes) in &taken[first..] {
                    sum += bytes;
                    let allowed = rate as f64 * (1.0 + (until - from) as f64 / 1e9);
                    prop_assert!(sum as f64 <= allowed + 1.0, "{sum} of {allowed}");
                }
            }
        }
    }
}
