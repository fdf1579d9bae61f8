//! `alloc-threadtest`: each thread repeatedly allocates many small objects, then frees them all in
//! the order of their allocation.

use super::Job;
use super::object::Object;

/// Objects of a round.
const OBJECTS: usize = 100_000;
/// Size in bytes.
const SIZE: u64 = 8;

pub fn work(job: &mut Job<'_>) {
    let mut objects: Vec<Object> = job.tally.list(OBJECTS);
    let mut left = job.options.operations;
    while left > 0 {
        let round = left.min(OBJECTS as u64);
        objects.extend((0..round).map(|_| job.tally.allocate(SIZE)));
        objects.drain(..).for_each(|object| job.tally.free(object));
        left -= round;
    }
}
