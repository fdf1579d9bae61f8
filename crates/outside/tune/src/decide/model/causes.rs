//! Infers why plans fail: because of a level, or a pair of levels, with which the program does not
//! run.
//!
//! No level or pair of a plan that worked is a cause; every plan that failed has at least one. A
//! Markov chain visits the sets of causes that agree with this, in proportion to their probability:
//! few causes more often than many, and a level more often than a pair.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::rngs::SmallRng;

use crate::shape::{Candidate, Shape};

/// Odds that a level fails by itself.
const LEVEL: f64 = 0.05;
/// Odds that two levels fail together.
const PAIR: f64 = 0.01;

/// Two levels of different factors, as (factor, level), or twice the same.
type Trait = ((usize, usize), (usize, usize));

/// State of the chain.
pub struct Causes {
    /// The possible causes.
    suspects: Vec<Trait>,
    /// Whether each is a cause in the present state.
    guilty: Vec<bool>,
    /// The failures of each suspect.
    failures: Vec<Vec<usize>>,
    /// The suspects of each failure.
    present: Vec<Vec<usize>>,
    failed: Vec<Candidate>,
    /// Levels of each cell; empty without suspects.
    cells: Vec<Vec<usize>>,
    candidates: usize,
}

impl Causes {
    /// Begins with about the fewest causes that explain the failures.
    pub fn new(shape: &Shape, worked: &[Candidate], failed: &[Candidate]) -> Self {
        let innocent: BTreeSet<Trait> = worked
            .iter()
            .filter_map(|&plan| shape.coordinates(plan))
            .flat_map(|point| traits(&point).collect::<Vec<Trait>>())
            .collect();
        let mut causes = Self {
            suspects: Vec::new(),
            guilty: Vec::new(),
            failures: Vec::new(),
            present: Vec::new(),
            failed: failed.to_vec(),
            cells: Vec::new(),
            candidates: shape.cells() + shape.extras,
        };
        let mut known: BTreeMap<Trait, usize> = BTreeMap::new();
        for point in failed.iter().filter_map(|&plan| shape.coordinates(plan)) {
            let failure = causes.present.len();
            let mut present = Vec::new();
            for suspect in traits(&point).filter(|t| !innocent.contains(t)) {
                let index = *known.entry(suspect).or_insert_with(|| {
                    causes.suspects.push(suspect);
                    causes.guilty.push(false);
                    causes.failures.push(Vec::new());
                    causes.suspects.len() - 1
                });
                causes.failures[index].push(failure);
                present.push(index);
            }
            // Without a suspect, the plan fails for a reason of its own.
            if !present.is_empty() {
                causes.present.push(present);
            }
        }
        if !causes.suspects.is_empty() {
            // By number, including cells that are not candidates.
            causes.cells = shape.cell_points().collect();
        }
        causes.accuse();
        causes
    }

    /// Accuses the suspect that explains most of the unexplained failures, until all are explained.
    fn accuse(&mut self) {
        loop {
            let open = |&failure: &usize| self.explanations(failure) == 0;
            let explains = |&suspect: &usize| {
                let count = self.failures[suspect].iter().copied().filter(open).count();
                (count, self.is_level(suspect))
            };
            let worst = (0..self.suspects.len()).max_by_key(explains);
            let Some(suspect) = worst.filter(|suspect| explains(suspect).0 > 0) else { return };
            self.guilty[suspect] = true;
        }
    }

    /// Draws whether each suspect is a cause, given all others.
    pub fn step(&mut self, rng: &mut SmallRng) {
        for suspect in 0..self.suspects.len() {
            let odds = self.odds(suspect);
            if rng.random::<f64>() < odds / (1.0 + odds) {
                self.guilty[suspect] = true;
            } else {
                self.acquit(suspect);
            }
            // Move the blame to another suspect of one of its failures.
            let failure = self.failures[suspect][rng.random_range(0..self.failures[suspect].len())];
            let others = &self.present[failure];
            let other = others[rng.random_range(0..others.len())];
            if self.guilty[suspect]
                && !self.guilty[other]
                && rng.random::<f64>() < self.odds(other) / odds
            {
                self.guilty[other] = true;
                if !self.acquit(suspect) {
                    self.guilty[other] = false;
                }
            }
        }
    }

    /// Candidates that fail.
    pub fn fails(&self) -> Vec<bool> {
        let mut fails = vec![false; self.candidates];
        for (&((f, a), (g, b)), _) in self.suspects.iter().zip(&self.guilty).filter(|(_, g)| **g) {
            for (fails, point) in fails.iter_mut().zip(&self.cells) {
                *fails |= point[f] == a && point[g] == b;
            }
        }
        for plan in &self.failed {
            fails[plan.0 as usize] = true;
        }
        fails
    }

    /// Acquits a suspect if everything is explained without it. Returns whether it did.
    fn acquit(&mut self, suspect: usize) -> bool {
        let needed = self.guilty[suspect]
            && self.failures[suspect].iter().any(|&failure| self.explanations(failure) == 1);
        self.guilty[suspect] &= needed;
        !needed
    }

    fn explanations(&self, failure: usize) -> usize {
        self.present[failure].iter().filter(|&&suspect| self.guilty[suspect]).count()
    }

    fn odds(&self, suspect: usize) -> f64 {
        if self.is_level(suspect) { LEVEL } else { PAIR }
    }

    fn is_level(&self, suspect: usize) -> bool {
        self.suspects[suspect].0 == self.suspects[suspect].1
    }
}

/// Levels of a cell, and pairs of them.
fn traits(point: &[usize]) -> impl Iterator<Item = Trait> + '_ {
    let level = |f: usize| (f, point[f]);
    (0..point.len()).flat_map(move |f| (f..point.len()).map(move |g| (level(f), level(g))))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// Share of draws in which each cell fails.
    fn shares(shape: &Shape, worked: &[u32], failed: &[u32]) -> Vec<f64> {
        let plans = |ids: &[u32]| ids.iter().copied().map(Candidate).collect::<Vec<_>>();
        let mut causes = Causes::new(shape, &plans(worked), &plans(failed));
        let mut rng = SmallRng::seed_from_u64(1);
        let mut shares = vec![0.0; shape.cells() + shape.extras];
        for _ in 0..1000 {
            causes.step(&mut rng);
            for (share, fails) in shares.iter_mut().zip(causes.fails()) {
                *share += f64::from(u8::from(fails));
            }
        }
        shares.into_iter().map(|count| count / 1000.0).collect()
    }

    #[test]
    fn a_level_that_always_fails_explains_away_its_company() {
        // 4 x 2 x 2: the last level of the first factor fails, with each level of the others.
        let shape = Shape { levels: vec![4, 2, 2], extras: 1, ..Shape::default() };
        let shares = shares(&shape, &[0], &[12, 15, 16]);
        assert!(shares[13] > 0.9 && shares[14] > 0.9, "{shares:?}");
        // The second levels of the other factors were never seen to work, and are hardly suspect.
        assert!(shares[3] < 0.1, "{shares:?}");
        assert_eq!((shares[0], shares[16]), (0.0, 1.0));
    }

    #[test]
    fn levels_that_work_apart_fail_together() {
        let shape = Shape { levels: vec![2, 2, 2], extras: 0, ..Shape::default() };
        let shares = shares(&shape, &[0, 1, 2, 3, 4, 5], &[6]);
        assert_eq!(shares[7], 1.0, "{shares:?}");
        assert_eq!(shares[..6], [0.0; 6]);
    }

    #[test]
    fn without_failures_nothing_is_suspect() {
        let shape = Shape { levels: vec![3, 3], extras: 0, ..Shape::default() };
        assert_eq!(shares(&shape, &[0], &[]), [0.0; 9]);
    }
}
