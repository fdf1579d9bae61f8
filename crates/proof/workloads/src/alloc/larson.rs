//! `alloc-larson`: a server. Each thread replaces objects at random. After a while it ends and
//! leaves its objects to its successor, so other threads free many of the objects that it
//! allocated.

use std::thread;

use super::Job;
use super::object::Object;
use super::sizes::uniform;
use super::tally::Tally;
use crate::WorkloadError;
use crate::random::Draws;

/// Objects of a thread.
const OBJECTS: usize = 5_000;
/// Replacements before a thread ends; a quarter of all in a run that has fewer than four times as
/// many, so that objects change hands in every run.
const LIFE: u64 = 200_000;
/// Sizes in bytes.
const SIZES: (u64, u64) = (8, 1000);

pub fn work(job: &mut Job<'_>) -> Result<(), WorkloadError> {
    let mut draws = job.tally.draws();
    let size = |draws: &mut Draws| uniform(draws, SIZES.0, SIZES.1);
    let mut objects: Vec<Object> = job.tally.list(OBJECTS);
    objects.extend((0..OBJECTS).map(|_| job.tally.allocate(size(&mut draws))));
    let mut left = job.options.operations;
    let longest = LIFE.min(left.div_ceil(4));
    while left > 0 {
        let life = left.min(longest);
        let replace = || {
            for _ in 0..life {
                replace_one(&mut job.tally, &mut draws, &mut objects);
            }
        };
        // The successor continues in the same scope.
        thread::scope(|scope| thread::Builder::new().spawn_scoped(scope, replace).map(drop))
            .map_err(|source| WorkloadError::Thread {
                number: job.worker.index + 1,
                threads: job.options.threads.get(),
                source,
            })?;
        left -= life;
    }
    objects.into_iter().for_each(|object| job.tally.free(object));
    Ok(())
}

fn replace_one(tally: &mut Tally<'_>, draws: &mut Draws, objects: &mut [Object]) {
    // Below 2^32.
    #[allow(clippy::cast_possible_truncation)]
    let object = &mut objects[draws.below(OBJECTS as u64) as usize];
    let new = tally.allocate(uniform(draws, SIZES.0, SIZES.1));
    tally.free(std::mem::replace(object, new));
}
