//! Sequential: as many segments as groups, each of `records / groups` consecutive keys, as in
//! transactional data with increasing keys (systematic-numa-study 4.2).
//!
//! A segment continues where the previous one ended and wraps at the last key. Every group
//! therefore receives the same number of records, or one less if the division has a remainder.

pub const fn key(index: u64, groups: u64) -> u64 {
    index % groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_receives_its_share() {
        let mut counts = [0u32; 7];
        for i in 0..703 {
            counts[key(i, 7) as usize] += 1;
        }
        assert_eq!(counts, [101, 101, 101, 100, 100, 100, 100]);
        assert_eq!((6..9).map(|i| key(i, 7)).collect::<Vec<_>>(), [6, 0, 1]);
    }
}
