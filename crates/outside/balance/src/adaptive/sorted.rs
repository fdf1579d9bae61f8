//! Walking through sorted rows side by side.

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
