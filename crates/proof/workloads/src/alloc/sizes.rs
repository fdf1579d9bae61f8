//! Sizes of objects: random choice, and counts by class.

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::random::Draws;

/// Classes are powers of two up to this one: 2^40 bytes.
const CLASSES: usize = 41;

/// A size uniform in `low..=high`.
pub fn uniform(draws: &mut Draws, low: u64, high: u64) -> u64 {
    low + draws.below(high - low + 1)
}

/// A size between `2^low` and `2^high` bytes. The probability of a class is inversely proportional
/// to its size. Within the class, which ends at its power of two, the size is uniform.
pub fn inverse(draws: &mut Draws, low: u32, high: u32) -> u64 {
    // Weights 1, 1/2, 1/4, ..., as the number of heads before the first tail.
    let heads = draws.next().trailing_ones();
    let class = low + heads % (high - low + 1);
    uniform(draws, (1 << class) / 2 + 1, 1 << class)
}

/// A size whose logarithm is uniform between those of `low` and `high`.
pub fn logarithmic(draws: &mut Draws, low: u64, high: u64) -> u64 {
    let span = (high as f64 / low as f64).ln();
    // Sizes are far below 2^52.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let size = (low as f64 * (span * draws.unit()).exp()) as u64;
    size.clamp(low, high)
}

/// Allocations by size class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram([u64; CLASSES]);

/// One class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Largest size of the class; the smallest is above the previous class.
    pub up_to_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self([0; CLASSES])
    }
}

impl Histogram {
    /// Counts one allocation.
    pub fn add(&mut self, bytes: u64) {
        let class = bytes.max(1).next_power_of_two().trailing_zeros() as usize;
        self.0[class.min(CLASSES - 1)] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine += more;
        }
    }

    /// The classes that occur.
    pub fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        let all = self.0.iter().enumerate();
        all.filter(|(_, n)| **n > 0)
            .map(|(class, &allocations)| Class { up_to_bytes: 1 << class, allocations })
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        for class in self.classes() {
            sequence.serialize_element(&class)?;
        }
        sequence.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_half_as_frequent_as_the_one_below() {
        let mut histogram = Histogram::default();
        let mut draws = Draws::of(1, 0);
        for _ in 0..1 << 16 {
            histogram.add(inverse(&mut draws, 3, 13));
        }
        let classes: Vec<Class> = histogram.classes().collect();
        assert_eq!((classes[0].up_to_bytes, classes.len()), (8, 11));
        for (pair, expected) in classes.windows(2).zip([0.5; 4]) {
            let share = pair[1].allocations as f64 / pair[0].allocations as f64;
            assert!((share - expected).abs() < 0.08, "{classes:?}");
        }
    }

    #[test]
    fn sizes_stay_in_their_range() {
        let mut draws = Draws::of(1, 0);
        for _ in 0..10_000 {
            assert!((8..=1000).contains(&uniform(&mut draws, 8, 1000)));
            assert!((5..=8192).contains(&inverse(&mut draws, 3, 13)));
            assert!((64..=4096).contains(&logarithmic(&mut draws, 64, 4096)));
        }
    }
}
