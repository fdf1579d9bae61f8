//! `alloc-churn`: fragmentation over time. Objects are replaced at random, while their sizes grow
//! from era to era and shrink again. One object in sixteen is never replaced. An allocator can
//! reuse memory of earlier eras only if it can turn pages of one size into pages of another.

use super::Job;
use super::object::Object;
use super::sizes::logarithmic;

/// Objects of a thread.
const OBJECTS: usize = 40_000;
/// One object in this many is never replaced.
const STAYS: u64 = 16;
/// Sizes of the eras in bytes.
const ERAS: [(u64, u64); 8] =
    [(16, 64), (32, 256), (64, 512), (256, 1024), (512, 2048), (256, 1024), (32, 256), (16, 64)];

pub fn work(job: &mut Job<'_>) {
    let mut draws = job.tally.draws();
    let mut objects: Vec<Object> = job.tally.list(OBJECTS);
    let each = job.options.operations.div_ceil(ERAS.len() as u64).max(1);
    for number in 0..job.options.operations {
        // Below 8.
        #[allow(clippy::cast_possible_truncation)]
        let (low, high) = ERAS[(number / each) as usize];
        let mut new = job.tally.allocate(logarithmic(&mut draws, low, high));
        new.fill();
        if objects.len() < OBJECTS {
            objects.push(new);
            continue;
        }
        let mut place = draws.below(OBJECTS as u64);
        if place.is_multiple_of(STAYS) {
            place += 1;
        }
        // Below 2^32.
        #[allow(clippy::cast_possible_truncation)]
        let old = std::mem::replace(&mut objects[place as usize], new);
        job.tally.free(old);
    }
    objects.into_iter().for_each(|object| job.tally.free(object));
}
