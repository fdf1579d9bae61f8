//! `alloc-big`: blocks of 64 KiB to 16 MiB, written from end to end, a few at a time. It shows
//! whether the allocator returns freed memory and faults it in again each time.

use super::Job;
use super::object::Object;
use super::sizes::logarithmic;

/// Blocks that a thread holds.
const BLOCKS: usize = 8;
/// Sizes in bytes.
const SIZES: (u64, u64) = (64 << 10, 16 << 20);

pub fn work(job: &mut Job<'_>) {
    let mut draws = job.tally.draws();
    let mut blocks: Vec<Option<Object>> = (0..BLOCKS).map(|_| None).collect();
    for _ in 0..job.options.operations {
        // Below 2^32.
        #[allow(clippy::cast_possible_truncation)]
        let place = &mut blocks[draws.below(BLOCKS as u64) as usize];
        if let Some(old) = place.take() {
            job.tally.free(old);
        }
        let mut block = job.tally.allocate(logarithmic(&mut draws, SIZES.0, SIZES.1));
        block.fill();
        *place = Some(block);
    }
    blocks.into_iter().flatten().for_each(|block| job.tally.free(block));
}
