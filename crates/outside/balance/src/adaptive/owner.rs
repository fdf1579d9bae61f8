//! Page ownership.
//!
//! Source: Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22
//! (1927): the lower end of the interval for a share, which is cautious with few samples and close
//! to the share with many.

use super::simd_sums::sum;

/// Standard deviations: 95 % on both sides.
const Z: f64 = 1.96;

/// Lower bound of a share that counts as a majority. Pages that are used about equally stay where
/// they are.
const MAJORITY: f64 = 0.55;

/// This many samples or fewer never show a majority, even if all of them are one node's: all / (all
/// + Z^2).
const FEWEST: f64 = Z * Z * MAJORITY / (1.0 - MAJORITY);

/// Lower bound of the share that `part` of `all` samples shows.
pub fn wilson_lower(part: f64, all: f64) -> f64 {
    if all <= 0.0 {
        return 0.0;
    }
    let (share, z2) = (part / all, Z * Z);
    let half = Z * (share * (1.0 - share) / all + z2 / (4.0 * all * all)).max(0.0).sqrt();
    (share + z2 / (2.0 * all) - half) / (1.0 + z2 / all)
}

/// The node whose share of the samples is a majority by its lower bound.
pub fn owner(counts: &[f32]) -> Option<usize> {
    let all = f64::from(sum(counts));
    // The bound is below the share, and below the bound of a page with one user, so most pages need
    // no square root.
    if all <= FEWEST {
        return None;
    }
    let most = counts.iter().copied().fold(0.0, f32::max);
    let (count, top) = (f64::from(most), counts.iter().position(|count| *count == most)?);
    let possible = count > all * MAJORITY;
    (possible && wilson_lower(count, all) > MAJORITY).then_some(top)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_by_hand() {
        // All of n: n / (n + z^2).
        assert!((wilson_lower(4.0, 4.0) - 4.0 / (4.0 + 3.8416)).abs() < 1e-12);
        // 15 of 20: 0.531 (Newcombe 1998, method 3, gives 0.5313).
        assert!((wilson_lower(15.0, 20.0) - 0.5313).abs() < 1e-4);
        assert_eq!(wilson_lower(0.0, 0.0), 0.0);
    }

    #[test]
    fn few_samples_own_nothing() {
        assert_eq!(owner(&[0.0, 4.0]), None, "4/7.84 is not a majority");
        assert_eq!(owner(&[0.0, 5.0]), Some(1));
        assert_eq!(owner(&[10.0, 10.0]), None);
        assert_eq!(owner(&[40.0, 60.0]), None);
        assert_eq!(owner(&[400.0, 600.0]), Some(1));
        assert_eq!(owner(&[]), None);
    }

    proptest! {
        #[test]
        fn more_evidence_never_lowers_the_chance(
            mut counts in proptest::collection::vec(0u16..500, 2..6), at in 0usize..6, more in 1u16..50
        ) {
            let at = at % counts.len();
            let bound = |counts: &[u16]| {
                wilson_lower(f64::from(counts[at]), counts.iter().copied().map(f64::from).sum())
            };
            let owned = |counts: &[u16]| {
                owner(&counts.iter().map(|c| f32::from(*c)).collect::<Vec<_>>()) == Some(at)
            };
            let before = (bound(&counts), owned(&counts));
            counts[at] += more;
            prop_assert!(bound(&counts) >= before.0 - 1e-12);
            prop_assert!(owned(&counts) || !before.1);
        }

        #[test]
        fn bounds_are_below_the_share(part in 0.0..1e6f64, rest in 0.0..1e6f64) {
            let bound = wilson_lower(part, part + rest);
            prop_assert!((-1e-12..=1.0).contains(&bound) && bound <= part / (part + rest).max(1e-300) + 1e-9);
        }
    }
}
