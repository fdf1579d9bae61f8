//! The result of an aggregation, and its checksum.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::random::mix;

/// One row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The group.
    pub key: u64,
    /// Its aggregate: a count, or twice a median (which is always an integer).
    pub value: u64,
}

/// A whole result, reduced to figures that distinguish two results. Rows may be added in any order
/// and by any number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Number of rows.
    pub groups: u64,
    /// Sum of the aggregates modulo 2^64, for comparison with other programs.
    pub sum: u64,
    /// Sum, modulo 2^64, of a hash of key and aggregate of each row.
    #[serde(serialize_with = "hexadecimal")]
    pub checksum: u64,
}

impl Answer {
    /// Reduces rows to an answer.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut answer = Self::default();
        for row in rows {
            answer.groups += 1;
            answer.sum = answer.sum.wrapping_add(row.value);
            answer.checksum =
                answer.checksum.wrapping_add(mix(mix(row.key.wrapping_add(1)) ^ row.value));
        }
        answer
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { groups, sum, checksum } = self;
        write!(f, "{groups} groups with sum {sum} and checksum {checksum:016x}")
    }
}

/// As text, because JSON numbers lose precision above 2^53.
pub(crate) fn hexadecimal<S: Serializer>(checksum: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{checksum:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_but_every_row_does() {
        let rows = [Row { key: 0, value: 3 }, Row { key: 1, value: 5 }, Row { key: 2, value: 3 }];
        let forward = Answer::of(&rows);
        assert_eq!(forward, Answer::of(rows.iter().rev()));
        assert_eq!((forward.groups, forward.sum), (3, 11));
        // The same values with exchanged keys are a different result.
        let exchanged = [Row { key: 0, value: 5 }, Row { key: 1, value: 3 }, rows[2]];
        assert_ne!(forward.checksum, Answer::of(&exchanged).checksum);
        assert_eq!(forward.sum, Answer::of(&exchanged).sum);
    }
}
