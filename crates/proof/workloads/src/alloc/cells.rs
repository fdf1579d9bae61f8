//! `alloc-cells`: a simulation whose threads own the objects of their part, as in PARSEC's
//! fluidanimate, on which numalloc reports its results. Each thread allocates particles in cells of
//! its own, and updates them in phases that end at barriers. It replaces some in each step, and
//! reads those at the border of its neighbour's part.

use std::hint::black_box;
use std::sync::{Barrier, PoisonError, RwLock};

use super::Job;
use super::object::Object;

/// Bytes of a particle: position, velocity and link.
const PARTICLE: u64 = 56;
/// Particles of a cell.
const CELL: usize = 4;
const STEPS: usize = 4;
/// Phases of a step.
const PHASES: usize = 4;
/// In each step, the particle that was allocated last is replaced in one of this many cells.
const REPLACED: usize = 2;
/// One of this many cells is read by the neighbour.
const BORDER: usize = 32;

/// The cells of one thread, each with its particles.
type Part = Vec<Vec<Object>>;

/// The cells of all threads.
pub struct Grid {
    parts: Vec<RwLock<Part>>,
    barrier: Barrier,
}

impl Grid {
    /// An empty grid for `threads` threads.
    pub fn new(threads: usize) -> Self {
        let parts = (0..threads).map(|_| RwLock::default()).collect();
        Self { parts, barrier: Barrier::new(threads) }
    }

    /// Changes the part of a thread.
    fn update(&self, thread: usize, change: impl FnOnce(&mut Part)) {
        change(&mut self.parts[thread].write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Reads the border of a thread's part.
    fn read_border(&self, thread: usize) {
        let part = self.parts[thread].read().unwrap_or_else(PoisonError::into_inner);
        part.iter().step_by(BORDER).flatten().for_each(|particle| {
            black_box(particle.tag());
        });
    }
}

/// The number of cells of a part, so that its particles and their replacements are this many
/// allocations.
fn cells_for(operations: u64) -> usize {
    let each = CELL + STEPS / REPLACED;
    usize::try_from(operations).unwrap_or(usize::MAX).div_ceil(each).max(1)
}

pub fn work(job: &mut Job<'_>, grid: &Grid) {
    let own = job.worker.index;
    let next = (own + 1) % job.options.threads.get();
    grid.update(own, |part| *part = fill(job));
    grid.barrier.wait();
    for _ in 0..STEPS {
        for phase in 0..PHASES {
            grid.update(own, |part| {
                part.iter_mut().flatten().for_each(|particle| particle.write(1));
                if phase == 0 {
                    replace(job, part);
                }
            });
            grid.barrier.wait();
            grid.read_border(next);
            grid.barrier.wait();
        }
    }
    grid.update(own, |part| {
        for mut cell in part.drain(..) {
            cell.drain(..).for_each(|particle| job.tally.free(particle));
            job.tally.drop_list(cell);
        }
    });
}

/// Allocates particles for cells in random order, so that those of a cell lie apart.
fn fill(job: &mut Job<'_>) -> Part {
    let count = cells_for(job.options.operations);
    let mut part: Part = (0..count).map(|_| job.tally.list(CELL)).collect();
    let mut draws = job.tally.draws();
    for _ in 0..count * CELL {
        // Below the number of cells.
        #[allow(clippy::cast_possible_truncation)]
        let start = draws.below(count as u64) as usize;
        let free = (start..count).chain(0..start).find(|&cell| part[cell].len() < CELL);
        part[free.unwrap_or(start)].push(job.tally.allocate(PARTICLE));
    }
    part
}

/// Replaces a particle of some cells.
fn replace(job: &mut Job<'_>, part: &mut Part) {
    for cell in part.iter_mut().step_by(REPLACED) {
        let new = job.tally.allocate(PARTICLE);
        if let Some(last) = cell.last_mut() {
            job.tally.free(std::mem::replace(last, new));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocations_are_as_many_as_operations() {
        for operations in [1, 6, 60, 3_000, 1_000_000] {
            let cells = cells_for(operations);
            let replaced = STEPS * cells.div_ceil(REPLACED);
            let allocations = (cells * CELL + replaced) as u64;
            assert!((operations..operations + 16).contains(&allocations), "{operations}");
        }
    }
}
