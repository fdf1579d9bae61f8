//! The screening design: few runs, each of which tells about every factor.
//!
//! Every factor runs through shuffled permutations of its levels, independently of the others. So
//! after any number of runs the levels of a factor have been used equally often, give or take one.
//! Of several such draws, the one is taken in which pairs of levels of two factors meet most
//! evenly. With two factors this is a Latin square, with more a near-orthogonal array of mixed
//! levels, for any mixture of level counts.
//!
//! Sources: M. D. McKay, R. J. Beckman, W. J. Conover, "A Comparison of Three Methods for
//! Selecting Values of Input Variables", Technometrics 21 (1979); H. Xu, "An Algorithm
//! for Constructing Orthogonal and Nearly-Orthogonal Arrays With Mixed Levels and Small
//! Runs", Technometrics 44 (2002): the sum of squared pair counts as criterion.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::shape::{Candidate, Shape};

/// Draws from which the most even block is taken.
const DRAWS: usize = 30;

/// Levels by run and factor; for unused levels, by factor and use.
type Rows = Vec<Vec<usize>>;

/// `blocks` blocks of `size` cells, the same for the same seed. With more blocks, the first ones
/// stay the same. Cells that are not candidates are avoided as far as the balance allows.
#[must_use]
pub fn screening(shape: &Shape, seed: u64, blocks: usize, size: usize) -> Vec<Vec<Candidate>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut chosen: Vec<Vec<usize>> = Vec::new();
    // Levels of the current permutation that are not used yet, per factor.
    let mut rest: Vec<Vec<usize>> = vec![Vec::new(); shape.levels.len()];
    for _ in 0..blocks {
        let mut best: Option<((usize, usize), Rows, Rows)> = None;
        for _ in 0..DRAWS {
            let (rows, after) = draw(shape, &rest, size, &mut rng);
            // A cell that is not a candidate is not run, so its levels are used less than others.
            let excluded = rows.iter().filter(|row| shape.has_excluded(row)).count();
            let badness = (excluded, clumps(&chosen, &rows));
            if best.as_ref().is_none_or(|(least, ..)| badness < *least) {
                best = Some((badness, rows, after));
            }
        }
        if let Some((_, rows, after)) = best {
            chosen.extend(rows);
            rest = after;
        }
    }
    chosen.chunks(size).map(|rows| rows.iter().map(|row| shape.cell(row)).collect()).collect()
}

/// One block, and the rest of the permutations after it.
fn draw(shape: &Shape, rest: &[Vec<usize>], size: usize, rng: &mut StdRng) -> (Rows, Rows) {
    let mut rows = vec![vec![0; shape.levels.len()]; size];
    let mut after = Vec::with_capacity(rest.len());
    for (factor, &levels) in shape.levels.iter().enumerate() {
        // Unused levels come first, then whole permutations. Shuffling within the block keeps the
        // balance except across permutations.
        let mut stream = rest[factor].clone();
        while stream.len() < size {
            let mut permutation: Vec<usize> = (0..levels).collect();
            permutation.shuffle(rng);
            stream.extend(permutation);
        }
        let left = stream.split_off(size);
        stream.shuffle(rng);
        for (row, level) in rows.iter_mut().zip(stream) {
            row[factor] = level;
        }
        after.push(left);
    }
    (rows, after)
}

/// How unevenly pairs of levels meet: two rows count the square of the number of factors in which
/// they agree, summed over all pairs of rows that involve a new one.
fn clumps(chosen: &[Vec<usize>], rows: &[Vec<usize>]) -> usize {
    let agree = |a: &[usize], b: &[usize]| a.iter().zip(b).filter(|(x, y)| x == y).count().pow(2);
    let against_chosen: usize =
        rows.iter().map(|row| chosen.iter().map(|other| agree(row, other)).sum::<usize>()).sum();
    let among_rows: usize = rows
        .iter()
        .enumerate()
        .map(|(i, row)| rows[..i].iter().map(|other| agree(row, other)).sum::<usize>())
        .sum();
    against_chosen + among_rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn levels_are_balanced_after_every_block(
            levels in prop::collection::vec(1usize..7, 1..6),
            blocks in 1usize..8,
            size in 1usize..10,
            seed: u64,
        ) {
            let shape = Shape { levels: levels.clone(), extras: 0, ..Shape::default() };
            let design = screening(&shape, seed, blocks, size);
            prop_assert_eq!(design.len(), blocks);
            let mut counts: Vec<Vec<usize>> = levels.iter().map(|&l| vec![0; l]).collect();
            for block in &design {
                prop_assert_eq!(block.len(), size);
                for &cell in block {
                    for (factor, level) in shape.coordinates(cell).unwrap().into_iter().enumerate() {
                        counts[factor][level] += 1;
                    }
                }
                for count in &counts {
                    let (least, most) = (count.iter().min().unwrap(), count.iter().max().unwrap());
                    prop_assert!(most - least <= 1, "{:?}", counts);
                }
            }
            let fewer = screening(&shape, seed, blocks.saturating_sub(1), size);
            prop_assert_eq!(&design[..fewer.len()], &fewer[..]);
        }
    }

    #[test]
    fn cells_that_are_no_candidates_are_rare() {
        let levels = vec![4, 3, 2];
        let excluded = vec![[(0, 1), (1, 2)], [(0, 2), (1, 2)]];
        let without = Shape { levels: levels.clone(), ..Shape::default() };
        let with = Shape { levels, excluded, ..Shape::default() };
        let count = |shape: &Shape| {
            let cells = screening(shape, 1, 6, 8).concat();
            cells.into_iter().filter(|cell| with.is_excluded(*cell)).count()
        };
        assert!(2 * count(&with) < count(&without), "{} {}", count(&with), count(&without));
    }

    #[test]
    fn pairs_meet_more_evenly_than_by_chance() {
        let shape = Shape { levels: vec![3, 3, 3], extras: 0, ..Shape::default() };
        let rows: Vec<Vec<usize>> =
            screening(&shape, 1, 1, 9)[0].iter().map(|&c| shape.coordinates(c).unwrap()).collect();
        let mut pairs: Vec<(usize, usize)> = rows.iter().map(|r| (r[0], r[1])).collect();
        pairs.sort_unstable();
        pairs.dedup();
        // Random draws of 9 from 9 pairs give 5.9 different ones.
        assert!(pairs.len() >= 7, "{} different pairs", pairs.len());
    }
}
