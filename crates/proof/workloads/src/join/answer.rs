//! The result of a join, reduced to figures that distinguish two results.

use std::fmt;

use serde::Serialize;

use crate::answer::hexadecimal;
use crate::random::mix;

/// A row of the result: the payload of the small table's tuple and that of the large one's.
pub type Row = [u64; 2];

/// A whole result. Rows may be added in any order and by any number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Number of rows.
    pub rows: u64,
    /// Sum over the rows of the product of both payloads, modulo 2^64. It changes when a tuple is
    /// joined with another tuple's partner.
    pub sum: u64,
    /// A hash of rows and sum.
    #[serde(serialize_with = "hexadecimal")]
    pub checksum: u64,
}

impl Answer {
    /// Makes an answer from the number of rows and the sum.
    #[must_use]
    pub const fn new(rows: u64, sum: u64) -> Self {
        Self { rows, sum, checksum: mix(mix(rows.wrapping_add(1)) ^ sum) }
    }

    /// Adds up parts of a result.
    pub fn of(parts: impl IntoIterator<Item = Self>) -> Self {
        let add =
            |(rows, sum): (u64, u64), part: Self| (rows + part.rows, sum.wrapping_add(part.sum));
        let (rows, sum) = parts.into_iter().fold((0, 0), add);
        Self::new(rows, sum)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows with checksum {:016x}", self.rows, self.checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanged_partners_show() {
        let answer = |rows: &[Row]| {
            let sum = rows.iter().map(|[small, large]| small * large).sum();
            Answer::new(rows.len() as u64, sum)
        };
        let right = answer(&[[1, 10], [2, 20]]);
        assert_ne!(right.checksum, answer(&[[1, 20], [2, 10]]).checksum);
        assert_eq!(right, Answer::of([answer(&[[2, 20]]), answer(&[[1, 10]])]));
        assert_ne!(answer(&[]).checksum, answer(&[[0, 0]]).checksum);
    }
}
