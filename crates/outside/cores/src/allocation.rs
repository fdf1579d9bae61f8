//! The allocation of cores to several targets on one machine: how many each gets.
//!
//! Weighted max-min fairness (Bertsekas, Gallager, "Data Networks", 2nd edition, section
//! 6.5.2) in whole cores: everybody has his minimum, then the next core goes to whoever has
//! the least for his weight and wants more.

/// What one target asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// It never gets less.
    pub minimum: u32,
    /// It would take so many.
    pub wanted: u32,
    /// Its part of what is scarce, relative to that of others; at least 1.
    pub weight: u32,
}

/// So many cores for each demand. The minima are granted even where they are more than
/// `total` all together: that they fit is for the caller to see to.
#[must_use]
pub fn allocate_cores(demands: &[Demand], total: u32) -> Vec<u32> {
    let mut granted: Vec<u32> = demands.iter().map(|demand| demand.minimum).collect();
    let mut left = total.saturating_sub(granted.iter().sum());
    while left > 0 {
        let after = |at: usize| f64::from(granted[at] + 1) / f64::from(demands[at].weight.max(1));
        let hungry = (0..demands.len()).filter(|at| granted[*at] < demands[*at].wanted);
        let Some(next) = hungry.min_by(|a, b| after(*a).total_cmp(&after(*b))) else { break };
        granted[next] += 1;
        left -= 1;
    }
    granted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_scarce_goes_by_weight() {
        let demand = |wanted, weight| Demand { minimum: 1, wanted, weight };
        assert_eq!(allocate_cores(&[demand(16, 3), demand(16, 1)], 16), [12, 4]);
        // Who wants little leaves the rest to the others.
        assert_eq!(allocate_cores(&[demand(2, 3), demand(16, 1)], 16), [2, 14]);
        assert_eq!(allocate_cores(&[demand(3, 1), demand(4, 1)], 16), [3, 4]);
    }

    fn demands() -> impl Strategy<Value = Vec<Demand>> {
        let demand = (1u32..4, 0u32..40, 1u32..10).prop_map(|(minimum, wanted, weight)| Demand {
            minimum,
            wanted,
            weight,
        });
        proptest::collection::vec(demand, 1..8)
    }

    proptest! {
        #[test]
        fn minima_totals_and_weights_are_respected(demands in demands(), spare in 0u32..64) {
            let minima: u32 = demands.iter().map(|demand| demand.minimum).sum();
            let total = minima + spare;
            let granted = allocate_cores(&demands, total);
            prop_assert!(granted.iter().sum::<u32>() <= total);
            let wanted: u32 = demands.iter().map(|c| c.wanted.max(c.minimum)).sum();
            // Nothing is kept from those who want it.
            prop_assert_eq!(granted.iter().sum::<u32>(), total.min(wanted));
            for (demand, cores) in demands.iter().zip(&granted) {
                prop_assert!(*cores >= demand.minimum);
                prop_assert!(*cores <= demand.wanted.max(demand.minimum));
            }
            for (one, cores) in demands.iter().zip(&granted) {
                for (other, theirs) in demands.iter().zip(&granted) {
                    // Who still wants has, but for the last core, as much for his weight as
                    // whoever has more than his minimum.
                    if *cores < one.wanted && *theirs > other.minimum {
                        let mine = f64::from(cores + 1) / f64::from(one.weight);
                        let his = f64::from(*theirs) / f64::from(other.weight);
                        prop_assert!(mine >= his, "{:?}: {:?}", demands, granted);
                    }
                }
            }
        }
    }
}
