//! Records which chunks of 2 MiB were advised to have huge pages or small ones.
//!
//! Advice is a property of a mapping. Where it changes from one chunk to the next, the kernel needs
//! two mappings ([`crate::page_heap::mapping_budget`]). A table records it by chunk, for two
//! reasons: to count those changes, and to repeat the advice after a range was mapped anew.

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{HUGE_PAGES, PAGE};
use crate::os::kernel::{self, Refused};
use crate::page_heap::mapping_budget;

/// The advice that the kernel was given for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Advice {
    /// The advice of its whole region.
    Regions = 0,
    /// A huge page.
    Huge = 1,
    /// Small pages, even if the machine gives huge ones without being asked: see
    /// [`crate::page_heap::small_chunks`].
    Small = 2,
}

impl Advice {
    fn from(entry: &AtomicU8) -> Self {
        match entry.load(Ordering::Relaxed) {
            1 => Self::Huge,
            2 => Self::Small,
            _ => Self::Regions,
        }
    }

    /// # Safety
    /// The range is ours.
    unsafe fn tell(self, start: usize, bytes: usize) {
        // SAFETY: by contract.
        unsafe {
            match self {
                Self::Regions => {}
                Self::Huge => kernel::ask_for_huge(start, bytes),
                Self::Small => kernel::ask_for_small(start, bytes),
            }
        }
    }
}

/// The advice of the chunk of a page.
pub fn of(space: &AddressSpace, page: u32) -> Advice {
    Advice::from(space.advice(page))
}

/// Advises chunks, from the first page of the first one to the first page after the last one,
/// unless that would add too many mappings. The caller holds the lock of their page heap.
pub fn give(space: &AddressSpace, chunks: Range<u32>, advice: Advice) {
    let bytes = (chunks.end - chunks.start) as usize * PAGE;
    let (before, after) = changes(space, &chunks, advice);
    if after > before && !mapping_budget::add(after - before, bytes) {
        return;
    }
    // SAFETY: the chunks are ours.
    unsafe { advice.tell(space.address_of(chunks.start), bytes) };
    for chunk in chunks.step_by(HUGE_PAGES as usize) {
        space.advice(chunk).store(advice as u8, Ordering::Relaxed);
    }
    mapping_budget::remove(before.saturating_sub(after));
}

/// How often advice changes from one chunk to the next, within a range and at its ends: now, and
/// once all of the range has this advice.
fn changes(space: &AddressSpace, chunks: &Range<u32>, advice: Advice) -> (u32, u32) {
    let entry = |page: u32| of(space, page);
    // The table has an entry after that of the last chunk.
    let left = chunks.start.checked_sub(HUGE_PAGES).map_or(Advice::Regions, entry);
    let right = entry(chunks.end);
    let mut before = 0;
    let mut last = left;
    for chunk in chunks.clone().step_by(HUGE_PAGES as usize) {
        before += u32::from(entry(chunk) != last);
        last = entry(chunk);
    }
    before += u32::from(right != last);
    (before, u32::from(left != advice) + u32::from(right != advice))
}

/// Empties pages and makes their properties equal to those of their neighbours again, so that they
/// share the neighbours' mapping.
///
/// # Errors
/// The kernel's error if it maps nothing there. The pages may then be inaccessible.
///
/// # Safety
/// The pages are committed and belong to this region, and their contents are not needed.
pub unsafe fn renew(space: &AddressSpace, region: usize, pages: Range<u32>) -> Result<(), Refused> {
    let start = space.address_of(pages.start);
    let bytes = (pages.end - pages.start) as usize * PAGE;
    // SAFETY: by contract.
    unsafe {
        kernel::map_anew(start, bytes)?;
        space.place(region, start, bytes);
        space.advise_as_region(region, start, bytes);
    }
    repeat(space, pages);
    Ok(())
}

/// Repeats the advice in the table for a range of pages.
fn repeat(space: &AddressSpace, pages: Range<u32>) {
    let mut start = pages.start;
    while start < pages.end {
        let advice = of(space, start);
        let mut end = next_chunk(start);
        while end < pages.end && of(space, end) == advice {
            end = next_chunk(end);
        }
        let end = end.min(pages.end);
        // SAFETY: the pages are ours.
        unsafe { advice.tell(space.address_of(start), (end - start) as usize * PAGE) };
        start = end;
    }
}

fn next_chunk(page: u32) -> u32 {
    (page & !(HUGE_PAGES - 1)) + HUGE_PAGES
}
