//! Allocates cores to several targets on one machine: how many each gets.
//!
//! Weighted max-min fairness (Bertsekas, Gallager, "Data Networks", 2nd edition, section 6.5.2) in
//! whole cores: every target gets its minimum, then the next core goes to the target that wants
//! more and has the least relative to its weight.

/// The demand of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The target never gets fewer.
    pub minimum: u32,
    /// The number of cores that it could use.
    pub wanted: u32,
    /// Its share of scarce cores, relative to the weights of the others; at least 1.
    pub weight: u32,
}

/// The number of cores for each demand. The minima are granted even if their sum exceeds `total`:
/// the caller has to make sure that they fit.
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
        // A target that wants little leaves the rest to the others.
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
            // No core that a target wants stays free.
            prop_assert_eq!(granted.iter().sum::<u32>(), total.min(wanted));
            for (demand, cores) in demands.iter().zip(&granted) {
                prop_assert!(*cores >= demand.minimum);
                prop_assert!(*cores <= demand.wanted.max(demand.minimum));
            }
            for (one, cores) in demands.iter().zip(&granted) {
                for (other, theirs) in demands.iter().zip(&granted) {
                    // A target that wants more has, but for the last core, as much for its weight
                    // as any target above its minimum.
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
