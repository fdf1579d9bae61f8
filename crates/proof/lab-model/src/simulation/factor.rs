//! Fixed-point factors for times and shares, of which every miss needs one.

/// Bits after the binary point, for a precision of one in four billion.
const FRACTION_BITS: u32 = 32;

/// A non-negative factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Factor(u64);

impl Factor {
    /// The nearest factor to a number below four billion.
    pub(crate) fn new(number: f64) -> Self {
        Self((number * (1u64 << FRACTION_BITS) as f64).round() as u64)
    }

    /// The product with a number, rounded down.
    #[inline]
    pub(crate) fn times(self, number: u64) -> u64 {
        ((u128::from(self.0) * u128::from(number)) >> FRACTION_BITS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_number() {
        for number in [0.0, 0.1, 0.5, 321.428_571, 1e6] {
            for times in [0, 1, 95_000, 1 << 40] {
                let (exact, product) = (number * times as f64, Factor::new(number).times(times));
                assert!((product as f64 - exact).abs() <= 1.0 + exact * 1e-8, "{number} {times}");
            }
        }
        assert_eq!(Factor::new(0.1).times(95_000), 9_500);
        assert_eq!(Factor::new(1.0).times(u64::MAX), u64::MAX);
    }
}
