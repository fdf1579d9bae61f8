//! Heavy hitter: one key holds half of the records, and the others are uniform over the remaining
//! keys (systematic-numa-study 4.4; the default of W1 there).

use crate::random::{Draws, mix};

/// The heavy key of a data set.
pub fn heavy_key(seed: u64, groups: u64) -> u64 {
    Draws::of(!seed, 0).below(groups)
}

/// Records come in pairs. A random bit of the pair decides which of the two has the heavy key. The
/// heavy key therefore has exactly half of the records, rounded down, at irregular positions.
pub fn key(index: u64, records: u64, groups: u64, heavy: u64, seed: u64, draws: &mut Draws) -> u64 {
    let coin = mix(seed.wrapping_add(index / 2)) >> 63;
    let unpaired = index + 1 == records && index.is_multiple_of(2);
    if groups == 1 || (index % 2 == coin && !unpaired) {
        return heavy;
    }
    // Uniform over the other keys: the heavy key's number is left out.
    let other = draws.below(groups - 1);
    other + u64::from(other >= heavy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_half_is_heavy() {
        for records in [1u64, 2, 1_000, 10_001] {
            let heavy = heavy_key(5, 100);
            let hits = (0..records)
                .filter(|&i| key(i, records, 100, heavy, 5, &mut Draws::of(5, i)) == heavy)
                .count() as u64;
            assert_eq!(hits, records / 2, "{records} records");
        }
    }
}
