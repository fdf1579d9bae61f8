//! Rows in order: sorting many by a number, walking through several side by side, and the first
//! ones.

/// Bits of a number that one pass sorts by, at most.
const DIGIT: u32 = 11;

/// Brings rows into the order of a number, those with the same number stay as they come.
///
/// Source: Knuth, "The Art of Computer Programming" 3, 5.2.5, sorting by distribution from the
/// last digit on: a million take a third of the time that comparing takes.
pub fn sort_by_number<T: Copy>(rows: &mut Vec<T>, number: impl Fn(&T) -> u64) {
    let numbers = || rows.iter().map(&number);
    let (Some(lowest), Some(highest)) = (numbers().min(), numbers().max()) else { return };
    let bits = u64::BITS - (highest - lowest).leading_zeros();
    let passes = bits.div_ceil(DIGIT);
    if passes == 0 {
        return;
    }
    // As few places as so many passes need: more of them stay in the cache.
    let width = bits.div_ceil(passes);
    let mut other = rows.clone();
    for pass in 0..passes {
        let digit =
            |row: &T| ((number(row) - lowest) >> (pass * width)) as usize & ((1 << width) - 1);
        let mut places = [0usize; 1 << DIGIT];
        rows.iter().for_each(|row| places[digit(row)] += 1);
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for row in rows.iter() {
            let place = &mut places[digit(row)];
            other[*place] = *row;
            *place += 1;
        }
        std::mem::swap(rows, &mut other);
    }
}

/// Which rows are among the first so many by these ranks; of equals those that come first.
pub fn first_by_rank(ranks: impl Iterator<Item = u32> + Clone, most: usize) -> Vec<bool> {
    let mut all: Vec<u32> = ranks.clone().collect();
    if most >= all.len() {
        return vec![true; all.len()];
    }
    let (lower, &mut bound, _) = all.select_nth_unstable(most);
    let mut equals = most - lower.iter().filter(|rank| **rank < bound).count();
    let first = |rank| match rank == bound && equals > 0 {
        true => {
            equals -= 1;
            true
        }
        false => rank < bound,
    };
    ranks.map(first).collect()
}

/// Goes on from `at` to the first row whose key is not before `key`; whether it has that key. Keys
/// that are looked for must ascend. Short ways cost little, long ones their logarithm.
pub fn seek<T, K: Ord>(rows: &[T], at: &mut usize, key: &K, of: impl Fn(&T) -> &K) -> bool {
    let mut step = 1;
    let mut end = *at;
    while end < rows.len() && of(&rows[end]) < key {
        *at = end + 1;
        end += step;
        step *= 2;
    }
    let end = end.min(rows.len());
    *at += rows[*at..end].partition_point(|row| of(row) < key);
    rows.get(*at).is_some_and(|row| of(row) == key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn in_order_and_equals_as_they_come(
            numbers in proptest::collection::vec(prop_oneof![0u64..50, any::<u64>()], 0..200)
        ) {
            let mut rows: Vec<(u64, usize)> = numbers.into_iter().zip(0..).collect();
            let mut expected = rows.clone();
            expected.sort();
            sort_by_number(&mut rows, |row| row.0);
            prop_assert_eq!(rows, expected);
        }

        #[test]
        fn the_first_are_those_of_a_sort(
            ranks in proptest::collection::vec(prop_oneof![0u32..5, any::<u32>()], 0..100), most in 0usize..120
        ) {
            let mut sorted: Vec<(u32, usize)> = ranks.iter().copied().zip(0..).collect();
            sorted.sort();
            let mut expected = vec![false; ranks.len()];
            sorted.iter().take(most).for_each(|(_, at)| expected[*at] = true);
            prop_assert_eq!(first_by_rank(ranks.into_iter(), most), expected);
        }

        #[test]
        fn everything_is_found_and_nothing_else(
            rows in proptest::collection::btree_set(0u16..300, 0..100),
            keys in proptest::collection::btree_set(0u16..300, 0..100),
        ) {
            let sorted: Vec<u16> = rows.iter().copied().collect();
            let mut at = 0;
            for key in keys {
                prop_assert_eq!(seek(&sorted, &mut at, &key, |row| row), rows.contains(&key));
                prop_assert_eq!(at, sorted.partition_point(|row| *row < key));
            }
        }
    }
}
