//! `alloc-threadtest`: each thread repeatedly allocates its share of the objects, all of them small,
//! then frees them in the order of their allocation.

use super::Job;
use super::object::Object;

/// Objects of a round, of all threads together: as in the Hoard suite's program.
const OBJECTS: usize = 30_000;
/// Size in bytes.
const SIZE: u64 = 8;

pub fn work(job: &mut Job<'_>) {
    let share = (OBJECTS / job.options.threads).max(1);
    let mut objects: Vec<Object> = job.tally.list(share);
    let mut left = job.options.operations;
    while left > 0 {
        let round = left.min(share as u64);
        objects.extend((0..round).map(|_| job.tally.allocate(SIZE)));
        objects.drain(..).for_each(|object| job.tally.free(object));
        left -= round;
    }
}
