//! Moving cluster: the key of record `i` is uniform in a window that slides over the key
//! range, as in streaming and spatial data (systematic-numa-study 4.2).

use crate::random::Draws;

/// Width of the window in keys. The study does not state it. With 64, the groups in use at any
/// moment fit into a first-level cache, which is the purpose of the data set.
pub const WINDOW: u64 = 64;

pub fn key(index: u64, records: u64, groups: u64, draws: &mut Draws) -> u64 {
    let window = WINDOW.min(groups);
    // The window stays at every position for the same number of records, including the position at
    // the end of the key range.
    let places = u128::from(groups - window + 1);
    let start = places * u128::from(index) / u128::from(records);
    start as u64 + draws.below(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_from_end_to_end() {
        let (records, groups) = (100_000, 1_000);
        let key = |i| key(i, records, groups, &mut Draws::of(1, i));
        assert!((0..100).all(|i| key(i) < WINDOW));
        assert!((records - 100..records).all(|i| key(i) >= groups - WINDOW));
        assert!((records - 1_000..records).any(|i| key(i) >= groups - 8));
        // After half of the records, the window is in the middle.
        let middle = (groups - WINDOW) / 2;
        assert!((50_000..50_010).all(|i| (middle..middle + WINDOW + 1).contains(&key(i))));
    }
}
