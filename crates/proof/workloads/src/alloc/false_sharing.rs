//! `alloc-cache-thrash` and `alloc-cache-scratch`: each thread allocates a small object,
//! writes to it many times and frees it. An allocator that gives two threads objects of one
//! cache line lets them wait for each other.
//!
//! In cache-thrash that would be its own doing (active false sharing). In cache-scratch all
//! threads begin with an object that the main thread allocated, side by side with the
//! others', and free it: an allocator that hands it out again where it was freed shares
//! lines passively.

use super::object::Object;
use super::{Bench, Job};

/// Size in bytes.
const SIZE: u64 = 8;
/// Writes to an object.
const WRITES: u64 = 100;

/// What the main thread gives to each thread.
pub fn objects_to_share(bench: Bench, threads: usize) -> Vec<Option<Object>> {
    let gift = |_| (bench == Bench::CacheScratch).then(|| Object::new(SIZE, 0));
    (0..threads).map(gift).collect()
}

pub fn work(job: &mut Job<'_>, gift: Option<Object>) {
    if let Some(mut object) = gift {
        object.write(WRITES);
        // It belongs to no account: who frees it is what matters.
        drop(object);
    }
    for _ in 0..job.options.operations {
        let mut object = job.tally.allocate(SIZE);
        object.write(WRITES);
        job.tally.free(object);
    }
}
