//! The combinatorial skeleton of a search space: how many factors with how many levels.
//!
//! Decisions need nothing else; only [`crate::space::Space`] knows what a level means (an
//! allocator, a memory policy). Candidate 0 is the default: level 0 of every factor. Cells of the
//! grid come first, in mixed-radix order. They are followed by candidates that the user added and
//! that are not cells.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// One of the plans under comparison.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Candidate(pub u32);

/// The plan that changes nothing; all others are measured against it.
pub const DEFAULT: Candidate = Candidate(0);

/// Numbers of levels, and how many candidates lie outside the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Levels of each factor.
    pub levels: Vec<usize>,
    /// Candidates that are not cells of the grid.
    pub extras: usize,
    /// Levels that may change a setting of the whole machine, as (factor, level).
    pub machine_wide: Vec<(usize, usize)>,
    /// Pairs of levels that exclude each other: cells with both are not candidates.
    #[serde(default)]
    pub excluded: Vec<[(usize, usize); 2]>,
}

/// How much a plan changes: the less, the simpler it is. Machine-wide settings outweigh any number
/// of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Burden {
    /// Settings of the whole machine.
    pub machine_wide: usize,
    /// Settings.
    pub changes: usize,
}

impl Shape {
    /// Number of cells of the grid: the product of the levels (the runs of a full factorial without
    /// repetition).
    #[must_use]
    pub fn cells(&self) -> usize {
        self.levels.iter().product()
    }

    /// All candidates, the default first.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        let all = numbered(0..self.cells() + self.extras);
        all.filter(|candidate| !self.is_excluded(*candidate))
    }

    /// Candidates that are not cells of the grid.
    pub fn extras(&self) -> impl Iterator<Item = Candidate> + use<> {
        numbered(self.cells()..self.cells() + self.extras)
    }

    /// Whether this is a cell that is not a candidate.
    #[must_use]
    pub fn is_excluded(&self, candidate: Candidate) -> bool {
        if self.excluded.is_empty() {
            return false;
        }
        self.coordinates(candidate).is_some_and(|point| self.has_excluded(&point))
    }

    /// Whether the cell with these levels is not a candidate.
    #[must_use]
    pub fn has_excluded(&self, point: &[usize]) -> bool {
        let is_at = |&(factor, level): &(usize, usize)| point.get(factor) == Some(&level);
        self.excluded.iter().any(|pair| pair.iter().all(is_at))
    }

    /// The level of each factor; `None` for a candidate outside the grid.
    #[must_use]
    pub fn coordinates(&self, candidate: Candidate) -> Option<Vec<usize>> {
        let mut rest = candidate.0 as usize;
        if rest >= self.cells() {
            return None;
        }
        let mut coordinates = vec![0; self.levels.len()];
        for (coordinate, &levels) in coordinates.iter_mut().zip(&self.levels).rev() {
            *coordinate = rest % levels;
            rest /= levels;
        }
        Some(coordinates)
    }

    /// The levels of every cell by its number, including cells that are not candidates.
    pub fn cell_points(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        numbered(0..self.cells()).filter_map(|cell| self.coordinates(cell))
    }

    /// How much a candidate changes. One outside the grid counts as changing more than any cell,
    /// and nothing machine-wide: only its author knows what it does.
    #[must_use]
    pub fn burden(&self, candidate: Candidate) -> Burden {
        let Some(point) = self.coordinates(candidate) else {
            return Burden { machine_wide: 0, changes: self.levels.len() + 1 };
        };
        let wide = |&(factor, level): &(usize, usize)| point.get(factor) == Some(&level);
        Burden {
            machine_wide: self.machine_wide.iter().filter(|place| wide(place)).count(),
            changes: point.iter().filter(|level| **level != 0).count(),
        }
    }

    /// The cell with these levels.
    #[must_use]
    pub fn cell(&self, coordinates: &[usize]) -> Candidate {
        let index = coordinates.iter().zip(&self.levels).fold(0, |sum, (c, l)| sum * l + c);
        Candidate(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

fn numbered(range: Range<usize>) -> impl Iterator<Item = Candidate> {
    range.map(|i| Candidate(u32::try_from(i).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_and_cells_are_inverse() {
        let shape = Shape { levels: vec![4, 3, 2], extras: 2, ..Shape::default() };
        assert_eq!(shape.candidates().count(), 26);
        for candidate in shape.candidates().take(24) {
            assert_eq!(shape.cell(&shape.coordinates(candidate).unwrap()), candidate);
        }
        assert_eq!(shape.coordinates(DEFAULT), Some(vec![0, 0, 0]));
        assert_eq!(shape.extras().collect::<Vec<_>>(), [Candidate(24), Candidate(25)]);
        assert_eq!(shape.coordinates(Candidate(24)), None);
    }

    #[test]
    fn the_simplest_plan_changes_nothing_machine_wide_and_few_settings() {
        let levels = vec![3, 2];
        let shape = Shape { levels, extras: 1, machine_wide: vec![(1, 1)], ..Shape::default() };
        let burden = |a, b| shape.burden(shape.cell(&[a, b]));
        assert_eq!(burden(0, 0), Burden { machine_wide: 0, changes: 0 });
        assert_eq!(burden(2, 1), Burden { machine_wide: 1, changes: 2 });
        assert!(burden(2, 0) < burden(2, 1) && burden(2, 0) < burden(0, 1));
        assert!(burden(2, 0) < shape.burden(Candidate(6)));
    }

    #[test]
    fn cells_with_both_levels_of_an_excluded_pair_are_no_candidates() {
        let excluded = vec![[(0, 2), (1, 1)]];
        let shape = Shape { levels: vec![3, 2], extras: 1, excluded, ..Shape::default() };
        let all: Vec<u32> = shape.candidates().map(|candidate| candidate.0).collect();
        assert_eq!(all, [0, 1, 2, 3, 4, 6]);
        assert!(shape.is_excluded(shape.cell(&[2, 1])));
        assert_eq!(shape.extras().collect::<Vec<_>>(), [Candidate(6)]);
    }

    #[test]
    fn a_space_without_factors_has_the_default_alone() {
        let shape = Shape { levels: vec![], extras: 0, ..Shape::default() };
        assert_eq!(shape.candidates().collect::<Vec<_>>(), [DEFAULT]);
    }
}
