//! The chunks that have small pages: they get a huge page once they are filled.
//!
//! A chunk of 2 MiB has small pages for one of two reasons. Either the heap did not expect the
//! program to fill it ([`crate::page_heap::density`]), or a part of it was returned to the kernel.
//! In the second case, khugepaged would replace its pages by a huge page even if a single one of
//! them is in memory (`max_ptes_none`, 511 by default; Documentation/admin-guide/mm/transhuge.rst):
//! memory that was returned would be taken again, and stay. So a chunk of which an eighth or more is
//! not in memory after a part was returned is advised to have small pages.
//!
//! A program may fill such chunks later, for example if it allocates objects first and writes them
//! afterwards. So a few chunks are measured from time to time, and those that are filled get a huge
//! page (`MADV_COLLAPSE`). A chunk that was returned as a whole gets its advice back at once,
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
/// A chunk of which no more than this is not in memory gets a huge page again.
const LOST: usize = CHUNK / 16;
/// The same for the first chunk of a heap, if it is at most 1 / `FIRST_PART` of the heap. Objects of
/// all sizes that the program uses all the time lie there, each size in a page of its own.
const FIRST_LOST: usize = CHUNK / 2;
const FIRST_PART: usize = 16;

/// Most chunks that one call of [`SmallChunks::take_filled`] looks at, and most of them that it
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

/// Whether chunks without advice get huge pages.
pub fn are_huge_unasked() -> bool {
    UNASKED.get() == Some(&true)
}

/// The chunks of a heap that have small pages. All zeroes: none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SmallChunks {
    /// Their number.
    count: u32,
    /// First page of the chunk that is looked at next.
    next: u32,
    /// Whether one of them was returned in part.
    returned: bool,
}

impl SmallChunks {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether this chunk is the only one.
    pub fn is_only(&self, space: &AddressSpace, chunk: u32) -> bool {
        self.count == 1 && advice::of(space, chunk) == Advice::Small
    }

    /// Whether one of them was returned in part, so that the program may fill it again.
    pub fn were_returned(&self) -> bool {
        self.returned && !self.is_empty()
    }

    /// Their number.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Advises a chunk to have small pages.
    pub fn add(&mut self, space: &AddressSpace, chunk: u32) {
        let had = advice::of(space, chunk) == Advice::Small;
        advice::give(space, chunk..chunk + HUGE_PAGES, Advice::Small);
        // It is not given if it would add too many mappings.
        let has = advice::of(space, chunk) == Advice::Small;
        self.count += u32::from(has && !had);
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
            Advice::Regions => !has_small_pages && are_huge_unasked(),
            Advice::Small => false,
        };
        let first = pages.start & !(HUGE_PAGES - 1);
        for chunk in (first..pages.end).step_by(HUGE_PAGES as usize) {
            let is_whole = pages.start <= chunk && chunk + HUGE_PAGES <= pages.end;
            if advice::of(space, chunk) == Advice::Small {
                if resident(space, chunk) == 0 {
                    self.remove(space, chunk);
                } else {
                    self.returned = true;
                }
            } else if !is_whole
                && may_be_refilled(chunk)
                && (1..SPARSE_BELOW).contains(&resident(space, chunk))
            {
                self.add(space, chunk);
                self.returned = true;
            }
        }
    }

    /// A chunk among these pages that is filled. It is advised to have a huge page; pass it to
    /// [`crate::page_heap::collapse`] without the lock. Looks at a few chunks, and at others the
    /// next time.
    pub fn take_filled(&mut self, space: &AddressSpace, pages: Range<u32>) -> Option<u32> {
        let mut measured = 0;
        let most = MEASURED.min(self.count);
        for _ in 0..LOOKED_AT.min(pages.len() as u32 / HUGE_PAGES) {
            if measured == most {
                break;
            }
            let chunk = self.next.max(pages.start);
            let end = chunk + HUGE_PAGES;
            self.next = if end < pages.end { end } else { pages.start };
            if advice::of(space, chunk) == Advice::Small {
                measured += 1;
                if self.take_if_filled(space, chunk, LOST) {
                    return Some(chunk);
                }
            }
        }
        None
    }

    /// Whether the first chunk of a heap of this many pages has small pages and is
    /// filled. If so, it is advised to have a huge page.
    pub fn take_first_if_filled(&mut self, space: &AddressSpace, chunk: u32, size: u32) -> bool {
        let lost = (size as usize * PAGE / FIRST_PART).clamp(LOST, FIRST_LOST);
        self.take_if_filled(space, chunk, lost)
    }

    fn take_if_filled(&mut self, space: &AddressSpace, chunk: u32, lost: usize) -> bool {
        advice::of(space, chunk) == Advice::Small
            && resident(space, chunk) >= CHUNK - lost
            && self.remove(space, chunk)
    }

    /// Advises chunks, some of which may have small pages, to have huge ones.
    pub fn give_huge(&mut self, space: &AddressSpace, chunks: Range<u32>) {
        let have = || {
            let each = chunks.clone().step_by(HUGE_PAGES as usize);
            each.filter(|&chunk| advice::of(space, chunk) == Advice::Small).count() as u32
        };
        let had = have();
        advice::give(space, chunks.clone(), Advice::Huge);
        self.count -= had - have();
        self.returned &= !self.is_empty();
    }

    /// Advises a chunk to have a huge page again; returns whether it had small ones and that was
    /// possible.
    fn remove(&mut self, space: &AddressSpace, chunk: u32) -> bool {
        let before = self.count;
        self.give_huge(space, chunk..chunk + HUGE_PAGES);
        self.count < before
    }
}

/// Bytes of a chunk in memory; all if the kernel does not report it.
pub fn resident(space: &AddressSpace, chunk: u32) -> usize {
    // SAFETY: the chunk is ours.
    unsafe { kernel::resident(space.address_of(chunk), CHUNK) }.unwrap_or(CHUNK)
}
