//! `alloc-realloc`: buffers that grow step by step, several at a time, so that the memory behind a
//! buffer is often in use when it grows.

use super::Job;
use super::object::Object;

/// Buffers that grow at the same time.
const BUFFERS: usize = 64;
/// First size in bytes.
const FIRST: u64 = 16;
/// A buffer of this size is replaced by a new one.
const LAST: u64 = 1 << 18;

pub fn work(job: &mut Job<'_>) {
    let mut draws = job.tally.draws();
    let mut buffers: Vec<Object> = (0..BUFFERS).map(|_| job.tally.allocate(FIRST)).collect();
    for _ in 0..job.options.operations {
        // Below 2^32.
        #[allow(clippy::cast_possible_truncation)]
        let buffer = &mut buffers[draws.below(BUFFERS as u64) as usize];
        let size = buffer.bytes();
        if size < LAST {
            // By an eighth, so that small sizes do not dominate and large ones occur.
            job.tally.grow(buffer, size + (size / 8).max(16));
            buffer.fill();
        } else {
            let new = job.tally.allocate(FIRST);
            job.tally.free(std::mem::replace(buffer, new));
        }
    }
    buffers.into_iter().for_each(|buffer| job.tally.free(buffer));
}
