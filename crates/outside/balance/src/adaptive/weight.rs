//! Estimates how often pages are accessed, from samples of one interval.
//!
//! Among pages that are used equally, chance makes some look hot. Moving those first would seem to
//! move more load than it does. So the counts of a region's pages are shrunk towards their mean,
//! the more the less they differ beyond chance.
//!
//! Sources: Robbins, "An empirical Bayes approach to statistics" (1956), counts of Poisson's law
//! whose rates have a gamma distribution; Chao, "Nonparametric estimation of the number of classes
//! in a population", Scandinavian Journal of Statistics 11 (1984), for the pages that were not seen.

use crate::evidence::Region;

/// The distribution that the counts of a region's pages are shrunk towards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    mean: f64,
    /// Shape of the distribution of rates; `None` if they do not differ beyond chance.
    shape: Option<f64>,
}

impl Weights {
    /// Estimates the distribution from the count of each page that was seen.
    pub fn of(counts: impl Iterator<Item = u32>) -> Self {
        let (mut seen, mut all, mut squares, mut once, mut twice) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for count in counts.map(f64::from) {
            seen += 1.0;
            all += count;
            squares += count * count;
            once += f64::from(u8::from(count == 1.0));
            twice += f64::from(u8::from(count == 2.0));
        }
        let unseen = once * once / (2.0 * f64::max(twice, 1.0));
        let pages = f64::min(seen + unseen, Region::PAGES.into()).max(1.0);
        let mean = all / pages;
        let beyond_chance = squares / pages - mean * mean - mean;
        Self { mean, shape: (beyond_chance > 0.0).then(|| mean * mean / beyond_chance) }
    }

    /// The weight of a page that was seen `count` times.
    pub fn weight(self, count: u32) -> f64 {
        match self.shape {
            Some(shape) if self.mean > 0.0 => {
                (f64::from(count) + shape) / (1.0 + shape / self.mean)
            }
            _ => self.mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chance_is_not_believed_and_heat_is() {
        // 512 pages with 1 access each by Poisson's law: 188, 188, 94, 31, 8, 2 and 1 had 0 to 6.
        let seen = [(1, 188), (2, 94), (3, 31), (4, 8), (5, 2), (6, 1)];
        let alike = seen.into_iter().flat_map(|(count, pages)| std::iter::repeat_n(count, pages));
        let weights = Weights::of(alike);
        assert!((0.95..1.05).contains(&weights.weight(1)), "{weights:?}");
        assert!((0.95..1.3).contains(&weights.weight(6)), "{weights:?}");
        let weights = Weights::of([100, 100, 2, 2, 2, 2, 2, 2].into_iter());
        assert!((80.0..=100.0).contains(&weights.weight(100)), "{weights:?}");
        assert!((2.0..4.0).contains(&weights.weight(2)), "{weights:?}");
    }

    proptest! {
        #[test]
        fn weights_lie_between_counts_and_their_mean(counts in proptest::collection::vec(1u32..50, 1..100)) {
            let weights = Weights::of(counts.iter().copied());
            for count in counts {
                let (low, high) = (weights.mean.min(count.into()), weights.mean.max(count.into()));
                prop_assert!((low - 1e-9..=high + 1e-9).contains(&weights.weight(count)));
            }
        }
    }
}
