//! Ordered rows: sorting many rows by a number, walking through several lists side by side, and
//! selecting the first ones.

use super::fork_join::{MANY, fork_join};

/// Most bits that one pass sorts by: their write positions stay in the first-level cache.
const DIGIT: u32 = 8;
/// Bits by which rows are divided that exceed a cache.
const PARTS: u32 = 10;
/// Number of rows that can be sorted within a cache.
const CACHED: usize = 8192;

/// Sorts rows by a number. The sort is stable. The content of `room` is lost; callers that sort
/// often keep the buffer.
///
/// Source: Knuth, "The Art of Computer Programming" 3, 5.2.5, sorting by distribution.
pub fn sort_by_number<T: Copy + Send>(
    rows: &mut [T],
    room: &mut Vec<T>,
    number: impl Fn(&T) -> u64 + Sync,
) {
    if let Some(&any) = rows.first() {
        room.resize(rows.len(), any);
        sort_between(rows, room, false, &number);
    }
}

/// Sorts `rows`; the result is in `rows` or in `room`.
fn sort_between<T: Copy + Send>(
    rows: &mut [T],
    room: &mut [T],
    to_room: bool,
    number: &(impl Fn(&T) -> u64 + Sync),
) {
    let range = |(lowest, highest): (u64, u64), one: u64| (lowest.min(one), highest.max(one));
    let (lowest, highest) = rows.iter().map(number).fold((u64::MAX, 0), range);
    let bits = u64::BITS - highest.saturating_sub(lowest).leading_zeros();
    if rows.len() > CACHED && bits > DIGIT {
        // The highest digit comes first, so the remaining passes stay within the cache.
        let shift = bits - PARTS.min(bits);
        let ends = distribute(rows, room, PARTS, |row| (number(row) - lowest) >> shift);
        let half = ends.partition_point(|end| (*end as usize) < rows.len() / 2);
        let middle = ends[half] as usize;
        let many = rows.len() >= MANY;
        let (rows, more_rows) = rows.split_at_mut(middle);
        let (room, more_room) = room.split_at_mut(middle);
        let parts = |ends: &[u32], offset: usize, rows: &mut [T], room: &mut [T]| {
            let mut begin = 0;
            for end in ends.iter().map(|end| *end as usize - offset) {
                if begin < end {
                    sort_between(&mut room[begin..end], &mut rows[begin..end], !to_room, number);
                }
                begin = end;
            }
        };
        fork_join(
            many,
            || parts(&ends[..=half], 0, rows, room),
            || parts(&ends[half + 1..], middle, more_rows, more_room),
        );
        return;
    }
    let passes = bits.div_ceil(DIGIT);
    // As few write positions as this number of passes needs.
    let width = bits.div_ceil(passes.max(1));
    let (mut from, mut to) = (rows, room);
    for pass in 0..passes {
        distribute(from, to, width, |row| {
            (number(row) - lowest) >> (pass * width) & ((1 << width) - 1)
        });
        std::mem::swap(&mut from, &mut to);
    }
    let in_room = passes % 2 == 1;
    if in_room != to_room {
        to.copy_from_slice(from);
    }
}

/// Distributes rows by a digit of this many bits, keeping the order of equal digits. Returns the
/// end of each digit's rows.
fn distribute<T: Copy>(
    from: &[T],
    to: &mut [T],
    width: u32,
    digit: impl Fn(&T) -> u64,
) -> Vec<u32> {
    let mut places = vec![0u32; 1 << width];
    for row in from {
        places[digit(row) as usize] += 1;
    }
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for row in from {
        let place = &mut places[digit(row) as usize];
        to[*place as usize] = *row;
        *place += 1;
    }
    places
}

/// Returns a function that is called for each rank in order and tells whether it is among the
/// `most` lowest. Of equal ranks the first ones are taken.
pub fn first_by_rank(mut ranks: Vec<u32>, most: usize) -> impl FnMut(u32) -> bool {
    let (bound, mut equals) = if most < ranks.len() {
        let (lower, &mut bound, _) = ranks.select_nth_unstable(most);
        (bound, most - lower.iter().filter(|rank| **rank < bound).count())
    } else {
        (u32::MAX, ranks.len())
    };
    move |rank| {
        let equal = rank == bound;
        let first = rank < bound || (equal && equals > 0);
        equals -= usize::from(equal && first);
        first
    }
}

/// Advances `at` to the first row whose key is not below `key`, and returns whether it has that
/// key. Keys must ascend from call to call. Short distances cost little, long ones their logarithm.
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

    /// More rows than fit a cache, on two threads. Pages are as in a process: in a heap, and in
    /// mappings far away from it.
    #[test]
    fn many_are_sorted_in_parts() {
        let number = |at: u64| {
            let hash = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if hash >> 63 == 0 { 0x5_5555 + hash % 3000 } else { 0x7_ffff_0000 + hash % (1 << 24) }
        };
        let mut rows: Vec<(u64, u64)> = (0..2 * MANY as u64).map(|at| (number(at), at)).collect();
        let mut expected = rows.clone();
        expected.sort();
        sort_by_number(&mut rows, &mut Vec::new(), |row| row.0);
        assert_eq!(rows, expected);
    }

    proptest! {
        #[test]
        fn in_order_and_equals_as_they_come(
            numbers in proptest::collection::vec(prop_oneof![0u64..50, 1u64 << 40..1 << 41, any::<u64>()], 0..200),
            room in 0usize..300,
        ) {
            let mut rows: Vec<(u64, usize)> = numbers.into_iter().zip(0..).collect();
            let mut expected = rows.clone();
            expected.sort();
            sort_by_number(&mut rows, &mut vec![(7, 7); room], |row| row.0);
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
            let first = first_by_rank(ranks.clone(), most);
            prop_assert_eq!(ranks.into_iter().map(first).collect::<Vec<_>>(), expected);
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
