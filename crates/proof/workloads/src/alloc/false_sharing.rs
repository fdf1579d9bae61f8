//! `alloc-cache-thrash` and `alloc-cache-scratch`: each thread allocates a small object, writes to
//! it many times and frees it. If the allocator gives two threads objects in one cache line, they
//! wait for each other.
//!
//! In cache-thrash the allocator itself would cause this (active false sharing). In cache-scratch
//! each thread begins with an object that the main thread allocated beside those of the other
//! threads, and frees it. An allocator that hands out such an object again to the thread that freed
//! it shares lines passively.

use super::object::Object;
use super::{Bench, Job};

/// Size in bytes.
const SIZE: u64 = 8;
/// Writes to an object.
const WRITES: u64 = 100;

/// The objects that the main thread gives to the threads.
pub fn objects_to_share(bench: Bench, threads: usize) -> Vec<Option<Object>> {
    let shared = |_| (bench == Bench::CacheScratch).then(|| Object::new(SIZE, 0));
    (0..threads).map(shared).collect()
}

pub fn work(job: &mut Job<'_>, shared: Option<Object>) {
    if let Some(mut object) = shared {
        object.write(WRITES);
        // It is in no tally: only the thread that frees it matters.
        drop(object);
    }
    for _ in 0..job.options.operations {
        let mut object = job.tally.allocate(SIZE);
        object.write(WRITES);
        job.tally.free(object);
    }
}
