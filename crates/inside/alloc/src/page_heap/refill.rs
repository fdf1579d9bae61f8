//! Prevents the kernel from filling returned memory again, and gives chunks that are in use again
//! their huge page back.
//!
//! khugepaged replaces the pages of a chunk of 2 MiB by a huge page even if a single one of them is
//! in memory (`max_ptes_none`, 511 by default; Documentation/admin-guide/mm/transhuge.rst). Memory
//! that was returned is then taken again, and stays. So a chunk of which an eighth or more is not in
//! memory after a part was returned is advised to have small pages. It gets a huge page when it is
//! filled (`MADV_COLLAPSE`). A chunk that was returned as a whole gets its advice back at once,
//! because khugepaged leaves empty chunks alone.

use core::ops::Range;

use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{HUGE_PAGES, PAGE};
use crate::os::kernel;
use crate::os::once::Once;
use crate::page_heap::advice::{self, Advice};

/// Bytes of a chunk.
pub const CHUNK: usize = HUGE_PAGES as usize * PAGE;
/// A chunk of which less is in memory gets small pages, unless it is empty.
const SPARSE_BELOW: usize = CHUNK / 8 * 7;
/// A chunk of which at least this much is in memory gets a huge page again.
const FULL_FROM: usize = CHUNK / 16 * 15;

/// Most chunks that one call of [`Sparse::take_filled`] looks at, and most of them that it
/// measures: about 10 microseconds of work.
const LOOKED_AT: u32 = 4096;
const MEASURED: u32 = 4;

/// Whether the machine gives huge pages without being asked.
static UNASKED: Once<bool> = Once::new(false);

/// Reads the machine's setting when the library is loaded, because later the program may no longer
/// be allowed to open files.
pub fn prepare() {
    UNASKED.get_or_make(|unasked| {
        *unasked = kernel::gives_huge_pages_unasked();
        true
    });
}

/// The chunks of a heap that have small pages because they were returned in part. All zeroes: none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Sparse {
    /// Their number.
    count: u32,
    /// First page of the chunk that is looked at next.
    next: u32,
}

impl Sparse {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their number.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Called after these pages were returned to the kernel. `has_small_pages` tells whether the
    /// region is advised to have small pages.
    pub fn note_returned(
        &mut self,
        space: &AddressSpace,
        pages: Range<u32>,
        has_small_pages: bool,
    ) {
        let may_be_refilled = |chunk| match advice::of(space, chunk) {
            Advice::Huge => true,
            Advice::Regions => !has_small_pages && UNASKED.get() == Some(&true),
            Advice::Small | Advice::Sparse => false,
        };
        let first = pages.start & !(HUGE_PAGES - 1);
        for chunk in (first..pages.end).step_by(HUGE_PAGES as usize) {
            let is_whole = pages.start <= chunk && chunk + HUGE_PAGES <= pages.end;
            if advice::of(space, chunk) == Advice::Sparse {
                if resident(space, chunk) == 0 {
                    self.restore(space, chunk);
                }
            } else if !is_whole
                && may_be_refilled(chunk)
                && (1..SPARSE_BELOW).contains(&resident(space, chunk))
            {
                advice::give(space, chunk..chunk + HUGE_PAGES, Advice::Sparse);
                // It is not given if it would add too many mappings.
                self.count += u32::from(advice::of(space, chunk) == Advice::Sparse);
            }
        }
    }

    /// A chunk among these pages that was returned in part and is filled again. It has its advice
    /// back; pass it to [`collapse`] without the lock. Looks at a few chunks, and at others the next
    /// time.
    pub fn take_filled(&mut self, space: &AddressSpace, pages: Range<u32>) -> Option<u32> {
        let mut measured = 0;
        for _ in 0..LOOKED_AT {
            if self.is_empty() || measured == MEASURED {
                break;
            }
            let chunk = self.next.max(pages.start);
            let end = chunk + HUGE_PAGES;
            self.next = if end < pages.end { end } else { pages.start };
            if advice::of(space, chunk) == Advice::Sparse {
                measured += 1;
                if resident(space, chunk) >= FULL_FROM && self.restore(space, chunk) {
                    return Some(chunk);
                }
            }
        }
        None
    }

    /// Gives a chunk that was returned in part its advice back; returns whether it has it.
    fn restore(&mut self, space: &AddressSpace, chunk: u32) -> bool {
        advice::give(space, chunk..chunk + HUGE_PAGES, Advice::Huge);
        let is_restored = advice::of(space, chunk) != Advice::Sparse;
        self.count -= u32::from(is_restored);
        is_restored
    }
}

/// Bytes of a chunk in memory; all if the kernel does not report it.
pub fn resident(space: &AddressSpace, chunk: u32) -> usize {
    // SAFETY: the chunk is ours.
    unsafe { kernel::resident(space.address_of(chunk), CHUNK) }.unwrap_or(CHUNK)
}

/// Replaces the small pages of a chunk, which may be in use, by a huge page (Linux 6.1). The kernel
/// does so even where the machine allows none, so this is checked first.
pub fn collapse(space: &AddressSpace, chunk: u32) {
    if kernel::allows_huge_pages() {
        // SAFETY: the chunk is ours, and its contents stay.
        let _ = unsafe { kernel::collapse(space.address_of(chunk), CHUNK) };
    }
}
