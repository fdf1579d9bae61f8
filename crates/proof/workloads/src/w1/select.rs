//! The median of a group's values.

/// Up to this number, all values are compared with each other. This takes no branch that depends on
/// the values, and less time than a selection with its mispredicted branches.
const FEW: usize = 24;

/// Twice the median; `None` without values. Changes the order of the values.
pub fn twice_median(values: &mut [u64]) -> Option<u64> {
    match values.len() {
        0 => None,
        1..=FEW => Some(twice_median_of_few(values)),
        length => {
            let (below, &mut upper, _) = values.select_nth_unstable(length / 2);
            // For an even number of values, the lower of the middle two is the greatest of those
            // below.
            let greatest = || below.iter().copied().max().unwrap_or(upper);
            let lower = if length % 2 == 1 { upper } else { greatest() };
            Some(lower + upper)
        }
    }
}

fn twice_median_of_few(values: &[u64]) -> u64 {
    let (mut lower, mut upper) = (0, 0);
    for (i, &value) in values.iter().enumerate() {
        // Among equal values, the first has the lowest rank.
        let (before, from) = values.split_at(i);
        let rank = before.iter().map(|&other| usize::from(other <= value)).sum::<usize>()
            + from.iter().map(|&other| usize::from(other < value)).sum::<usize>();
        lower = if rank == (values.len() - 1) / 2 { value } else { lower };
        upper = if rank == values.len() / 2 { value } else { upper };
    }
    lower + upper
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_medians() {
        assert_eq!(twice_median(&mut []), None);
        assert_eq!(twice_median(&mut [7]), Some(14));
        assert_eq!(twice_median(&mut [1, 4]), Some(5));
        assert_eq!(twice_median(&mut [9, 1, 5]), Some(10));
    }

    proptest! {
        #[test]
        fn medians_lie_in_the_middle_of_the_sorted(mut values in prop::collection::vec(0..crate::data::VALUE_LIMIT, 1..200), distinct in 1u64..50) {
            values.iter_mut().step_by(2).for_each(|value| *value %= distinct);
            let median = twice_median(&mut values);
            values.sort_unstable();
            let n = values.len();
            prop_assert_eq!(median, Some(values[(n - 1) / 2] + values[n / 2]));
        }
    }
}
