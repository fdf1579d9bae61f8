//! Replaces the small pages of a filled chunk by a huge page, at a pace that other threads do not
//! notice.
//!
//! The kernel first waits until every CPU has emptied its list of new pages, and the process's
//! memory map stays locked meanwhile: threads that map or unmap memory, as each thread does that
//! starts or ends, wait as well. That takes 0.2 ms on an idle machine, and 4 to 7 ms where 32 or 64
//! CPUs are busy. So threads collapse a chunk only after eight times as long as the last one took,
//! except the first chunk of each heap, which is the whole heap of many programs.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::layout::address_space::AddressSpace;
use crate::os::kernel;
use crate::page_heap::small_chunks::CHUNK;

/// The share of the time in which the memory map may be locked: one in this many.
const SHARE: u64 = 8;

/// When the next chunk is due, in ns of the monotonic clock.
static DUE: AtomicU64 = AtomicU64::new(0);

/// Whether a thread that allocates may collapse a chunk now.
pub fn is_due() -> bool {
    kernel::now_ns() >= DUE.load(Ordering::Relaxed)
}

/// Replaces the small pages of a chunk, which may be in use, by a huge page (Linux 6.1); returns
/// how long that took, in ns. The kernel does so even where the machine allows none, so this is
/// checked first.
pub fn collapse(space: &AddressSpace, chunk: u32) -> u64 {
    if !kernel::allows_huge_pages() {
        return 0;
    }
    let begin = kernel::now_ns();
    // SAFETY: the chunk is ours, and its contents stay.
    let _ = unsafe { kernel::collapse(space.address_of(chunk), CHUNK) };
    let end = kernel::now_ns();
    DUE.fetch_max(next_due(begin, end), Ordering::Relaxed);
    end.saturating_sub(begin)
}

fn next_due(begin: u64, end: u64) -> u64 {
    end.saturating_add((SHARE - 1).saturating_mul(end.saturating_sub(begin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_locked_an_eighth_of_the_time() {
        // From 1000 to 1008, the next one from 1064 on: 8 of 64.
        assert_eq!(next_due(1000, 1008), 1064);
        assert_eq!(next_due(1000, 1000), 1000);
    }
}
