//! A histogram of latencies. Each octave has sixteen buckets of equal width. A percentile is
//! therefore known to 3.2 %, and the bucket of a latency is a few of its bits.

/// A count for each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyBuckets(pub Vec<u64>);

/// Bits of a latency that choose a bucket of its octave.
const BITS: u32 = 4;
/// Buckets of an octave.
const PER_OCTAVE: usize = 1 << BITS;
/// The first bucket begins here, in powers of two of a nanosecond.
const FIRST_OCTAVE: usize = 4;

impl LatencyBuckets {
    /// Buckets: from 16 ns, over 16 octaves, to a millisecond.
    pub const COUNT: usize = 16 * PER_OCTAVE;

    /// The bucket of a latency. The first and last bucket also take latencies beyond the range.
    #[must_use]
    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn bucket(latency_ns: f64) -> usize {
        // Exponent and leading bits of the fraction are adjacent, so together they are one number
        // that grows by PER_OCTAVE with each octave.
        let position = |ns: f64| (ns.to_bits() >> (f64::MANTISSA_DIGITS - 1 - BITS)) as usize;
        let first = position((1u64 << FIRST_OCTAVE) as f64);
        position(latency_ns.max(1.0)).saturating_sub(first).min(Self::COUNT - 1)
    }

    /// The latency, in nanoseconds, that this share (0 to 1) of the accesses did not exceed: the
    /// middle of its bucket. `None` without an access.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> Option<f64> {
        let total: u64 = self.0.iter().sum();
        let wanted = (total as f64 * share).max(1.0);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen as f64 >= wanted
        })?;
        let octave = ((bucket / PER_OCTAVE + FIRST_OCTAVE) as f64).exp2();
        let within = ((bucket % PER_OCTAVE) as f64 + 0.5) / PER_OCTAVE as f64;
        (total > 0).then_some(octave * (1.0 + within))
    }

    /// The counts since an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |i: usize| earlier.0.get(i).copied().unwrap_or(0);
        Self(self.0.iter().enumerate().map(|(i, n)| n.saturating_sub(before(i))).collect())
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}

impl Default for LatencyBuckets {
    fn default() -> Self {
        Self(vec![0; Self::COUNT])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_an_access_there_is_no_quantile() {
        assert_eq!(LatencyBuckets::default().quantile_ns(0.99), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_as_good_as_its_bucket(ns in 20.0f64..900_000.0, share in 0.01f64..1.0) {
            let mut buckets = LatencyBuckets::default();
            buckets.0[LatencyBuckets::bucket(ns)] += 3;
            let found = buckets.quantile_ns(share).unwrap();
            prop_assert!((found / ns - 1.0).abs() < 0.032, "{} for {}", found, ns);
        }

        #[test]
        fn every_latency_has_a_bucket(ns in proptest::num::f64::ANY) {
            prop_assert!(LatencyBuckets::bucket(ns) < LatencyBuckets::COUNT);
        }
    }
}
