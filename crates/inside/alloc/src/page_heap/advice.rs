//! Which chunks of 2 MiB were advised to have huge pages or small ones.
//!
//! Advice is a property of a mapping: where it changes from one chunk to the next, the kernel
//! needs two ([`crate::page_heap::mapping_budget`]). A table remembers it by chunk, for two reasons: to count
//! those changes, and to advise a range in the same way again after it was mapped anew.

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{HUGE_PAGES, PAGE};
use crate::os::kernel::{self, Refused};
use crate::page_heap::mapping_budget;

/// What the kernel was told of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Advice {
    /// What holds for its whole region.
    Regions = 0,
    /// To have a huge page.
    Huge = 1,
    /// To have small pages, also where the machine gives huge ones unasked.
    Small = 2,
}

impl Advice {
    fn of(entry: &AtomicU8) -> Self {
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

/// How often advice changes from one chunk to the next, in and at the ends of a range: now, and
/// once all of the range has this advice.
fn changes(space: &AddressSpace, chunks: &Range<u32>, advice: Advice) -> (u32, u32) {
    let entry = |page: u32| Advice::of(space.advice(page));
    // The first chunk of a region, whose first page is never handed out, is not advised; the
    // table has an entry behind that of the last one.
    let (left, right) = (entry(chunks.start - HUGE_PAGES), entry(chunks.end));
    let mut before = 0;
    let mut last = left;
    for chunk in chunks.clone().step_by(HUGE_PAGES as usize) {
        before += u32::from(entry(chunk) != last);
        last = entry(chunk);
    }
    before += u32::from(right != last);
    (before, u32::from(left != advice) + u32::from(right != advice))
}

/// Empties pages and makes their properties equal to their neighbours' again, whatever happened
/// to them, so that they share the neighbours' mapping.
///
/// # Errors
/// The kernel's, when it maps nothing there: then they may not be accessible.
///
/// # Safety
/// The pages are committed, of this region, and nobody needs their contents.
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

/// Repeats what the table says of a range of pages.
fn repeat(space: &AddressSpace, pages: Range<u32>) {
    let mut start = pages.start;
    while start < pages.end {
        let advice = Advice::of(space.advice(start));
        let mut end = next_chunk(start);
        while end < pages.end && Advice::of(space.advice(end)) == advice {
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
