//! `alloc-mix`: allocates and writes, or reads and frees, in random order. The frequency of a size
//! is inversely proportional to its class.

use super::Job;
use super::object::Object;
use super::sizes::inverse;

/// Slots for objects per thread; half of them are in use on average.
const PLACES: usize = 100_000;
/// Classes from 8 bytes to 8 KiB.
const CLASSES: (u32, u32) = (3, 13);

pub fn work(job: &mut Job<'_>) {
    let mut draws = job.tally.draws();
    let mut places: Vec<Option<Object>> = job.tally.list(PLACES);
    places.resize_with(PLACES, || None);
    for _ in 0..job.options.operations {
        // Below 2^32.
        #[allow(clippy::cast_possible_truncation)]
        let place = &mut places[draws.below(PLACES as u64) as usize];
        match place.take() {
            Some(object) => job.tally.free(object),
            None => {
                let mut object = job.tally.allocate(inverse(&mut draws, CLASSES.0, CLASSES.1));
                object.fill();
                *place = Some(object);
            }
        }
    }
    places.into_iter().flatten().for_each(|object| job.tally.free(object));
}
