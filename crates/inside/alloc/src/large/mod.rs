//! Large blocks: runs of pages directly from the page heap of a region.

mod relocate;

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use crate::config::{self, INTERLEAVE_FROM};
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{HUGE_PAGES, PAGE, QUANTUM};
use crate::layout::span::{CUTS, Span, Use};
use crate::os::kernel::{self, Refused};
use crate::os::report;
use crate::page_heap::run::{Begin, Purpose, Run};
use crate::page_heap::{Region, advice, mapping_budget};
use relocate::MOVE_FROM;

/// A block, and whether it is known to be all zeroes.
#[derive(Clone, Copy)]
pub struct Block {
    /// Its start; null if there is no memory.
    pub start: *mut u8,
    /// Whether it is all zeroes.
    pub zero: bool,
}

impl Block {
    /// There is no memory.
    pub const NOTHING: Self = Self { start: null_mut(), zero: false };
}

/// Number of guard pages at the end of a block.
fn guard_pages() -> u32 {
    u32::from(config::get().is_hardened())
}

/// Mappings that guard pages add to the process: their own, and that of the memory after them.
const GUARD_MAPPINGS: u32 = 2;

/// Makes the guard pages of a block inaccessible, or accessible again; returns whether that was
/// possible.
fn guard(space: &AddressSpace, page: u32, pages: u32, accessible: bool) -> bool {
    let guard = guard_pages();
    let start = space.address_of(page + pages - guard);
    // SAFETY: those pages belong to the block, beyond the part that its owner may use.
    unsafe { kernel::protect(start, guard as usize * PAGE, accessible) }.is_ok()
}

/// The pages of a block whose guard pages are accessible again. If the kernel refuses that
/// (RLIMIT_DATA), the guard pages are left out, because nobody may get them.
fn open_end(space: &AddressSpace, run: Run) -> Run {
    match guard_pages() {
        0 => run,
        _ if guard(space, run.page, run.pages, true) => run,
        guard => Run { pages: run.pages - guard, ..run },
    }
}

/// The region for a block of `size` bytes that a thread on this node allocates.
pub fn region(space: &AddressSpace, size: usize, node: usize) -> usize {
    match space.nodes().interleaved() {
        Some(region) if size >= INTERLEAVE_FROM => region,
        _ => space.nodes().blocks(node),
    }
}

/// Takes a block for `size` bytes at a multiple of `align`, a power of two, from this node or, if
/// that has no room, from another one.
pub fn allocate(space: &AddressSpace, node: usize, size: usize, align: usize) -> Block {
    let at = pages_of(space, align).map(Begin::at_multiple_of);
    at.map_or(Block::NOTHING, |at| take(space, node, size, at, Purpose::Block))
}

/// The same for a block that will replace another one: see [`replace`].
pub fn allocate_to_replace(
    space: &AddressSpace,
    node: usize,
    size: usize,
    align: usize,
    old: *mut u8,
) -> Block {
    if align > PAGE {
        return allocate(space, node, size, align);
    }
    let (_, page, pages) = find(space, old);
    // Huge pages move whole if the new block has the same position within 2 MiB as the old one.
    let at = match pages < MOVE_FROM {
        true => Begin::ANYWHERE,
        false => {
            Begin { by: HUGE_PAGES, rest: (space.address_of(page) / PAGE) as u32 % HUGE_PAGES }
        }
    };
    let block = take(space, node, size, at, Purpose::Target);
    // If memory is short, there may be room for a block at another position.
    if block.start.is_null() { allocate(space, node, size, align) } else { block }
}

fn take(space: &AddressSpace, node: usize, size: usize, at: Begin, purpose: Purpose) -> Block {
    let count = space.nodes().regions();
    let Some(pages) = pages_of(space, size) else { return Block::NOTHING };
    let pages = pages + guard_pages();
    for node in (node..count).chain(0..node.min(count)) {
        let mut heap = Region::of(space, node).lock();
        if let Some(run) = heap.take(space, pages, at, purpose) {
            describe(space, run.page, pages);
            return Block { start: space.address_of(run.page) as *mut u8, zero: run.zero };
        }
    }
    Block::NOTHING
}

/// Pages for this many bytes, at least one; `None` if they exceed a node.
fn pages_of(space: &AddressSpace, bytes: usize) -> Option<u32> {
    (bytes <= space.stride()).then(|| bytes.div_ceil(PAGE).max(1) as u32)
}

/// Enters a block into the table, and makes its guard pages inaccessible if it has any. The caller
/// holds the lock, or owns the pages.
fn describe(space: &AddressSpace, page: u32, pages: u32) {
    let mut since = 0;
    if guard_pages() > 0 && mapping_budget::add(GUARD_MAPPINGS, PAGE) {
        guard(space, page, pages, false);
        since = GUARD_MAPPINGS;
    }
    // SAFETY: the pages belong to the caller.
    unsafe {
        *space.span(page) = Span { state: Use::Large, pages, since, ..Span::NOTHING };
    }
}

/// The block at an address: node, first page and pages; `None` if no block starts there.
#[inline(always)]
fn look(space: &AddressSpace, pointer: *mut u8) -> Option<(usize, u32, u32)> {
    let address = pointer as usize;
    let node = space.node_of(address)?;
    let page = space.page_of(address);
    if !address.is_multiple_of(PAGE)
        || page >= Region::of(space, node).reached.load(Ordering::Acquire)
    {
        return None;
    }
    // SAFETY: below the frontier spans are accessible; only the owner of a block, the caller,
    // changes its description.
    let span = unsafe { &*space.span(page) };
    (span.state == Use::Large).then_some((node, page, span.pages))
}

/// The same; ends the process if no block starts there.
fn find(space: &AddressSpace, pointer: *mut u8) -> (usize, u32, u32) {
    look(space, pointer).unwrap_or_else(|| match space.node_of(pointer as usize) {
        Some(_) => report::bad_free(pointer as usize, explain(pointer as usize)),
        None => report::bad_free(pointer as usize, report::FOREIGN),
    })
}

/// Whether a block without guard pages has exactly the pages that `size` bytes need.
#[inline(always)]
pub fn fits(space: &AddressSpace, pointer: *mut u8, size: usize) -> bool {
    look(space, pointer).is_some_and(|(_, _, pages)| size.div_ceil(PAGE) == pages as usize)
}

/// The error for a pointer into the payload at which no block starts.
fn explain(address: usize) -> &'static str {
    if !address.is_multiple_of(QUANTUM) {
        report::MISALIGNED
    } else {
        "no block starts there: it was freed before, or it points into one"
    }
}

/// Frees a block; returns the number under which the heap profile has recorded it, or 0.
#[must_use]
pub fn free(space: &AddressSpace, pointer: *mut u8) -> u32 {
    free_with(space, find(space, pointer), pointer, false)
}

/// Frees a block; if `is_empty`, no part of it is in memory. Returns the same as [`free`].
fn free_with(
    space: &AddressSpace,
    (node, page, pages): (usize, u32, u32),
    pointer: *mut u8,
    is_empty: bool,
) -> u32 {
    let mut heap = Region::of(space, node).lock();
    // SAFETY: the block belongs to the caller until here; the lock is held.
    let span = unsafe { &mut *space.span(page) };
    if span.state != Use::Large {
        report::bad_free(pointer as usize, "it was freed by another thread at the same time");
    }
    span.state = Use::Nothing;
    let added = core::mem::take(&mut span.since);
    let was_moved = core::mem::take(&mut span.listed);
    span.set_cuts([0; CUTS]);
    let sample = core::mem::take(&mut span.free);
    let run = Run { page, pages, zero: is_empty };
    if was_moved {
        drop(heap);
        give_renewed(space, node, run, added);
        return sample;
    }
    mapping_budget::remove(added);
    let run = if added > 0 { open_end(space, run) } else { run };
    heap.give(space, run, kernel::now_ms() as u32);
    sample
}

/// Gives back pages of a block with a mapping of its own, after merging it with that of its
/// neighbours.
fn give_renewed(space: &AddressSpace, node: usize, run: Run, added: u32) {
    let Some(run) = renew(space, node, run, added) else { return };
    Region::of(space, node).lock().give(space, run, kernel::now_ms() as u32);
}

/// Merges the mapping of unused pages with that of their neighbours. Returns the part of them that
/// may be used again; `None` if they may be unmapped now.
fn renew(space: &AddressSpace, node: usize, run: Run, added: u32) -> Option<Run> {
    if !mapping_budget::can_merge() {
        return Some(open_end(space, run));
    }
    // SAFETY: the pages are on no list, and nothing is allocated there.
    if unsafe { advice::renew(space, node, run.page..run.page + run.pages) }.is_ok() {
        mapping_budget::remove(added);
        return Some(Run { zero: true, ..run });
    }
    let bytes = run.pages as usize * PAGE;
    // SAFETY: as above. Locked pages stay. If a part is not mapped, the kernel returns ENOMEM.
    let zero = match unsafe { kernel::discard(space.address_of(run.page), bytes) } {
        Ok(()) => true,
        Err(Refused(libc::ENOMEM)) => return None,
        Err(_) => false,
    };
    Some(open_end(space, Run { zero, ..run }))
}

/// Bytes of a block.
pub fn usable_size(space: &AddressSpace, pointer: *mut u8) -> usize {
    (find(space, pointer).2 - guard_pages()) as usize * PAGE
}

/// Makes a block shorter or longer in place; returns whether that was possible.
pub fn resize(space: &AddressSpace, pointer: *mut u8, size: usize) -> bool {
    let (node, page, pages) = find(space, pointer);
    // Guard pages cannot move.
    let Some(wanted) = pages_of(space, size).filter(|_| guard_pages() == 0) else { return false };
    if wanted > pages {
        let mut heap = Region::of(space, node).lock();
        let is_longer = heap.extend(space, page, pages, wanted - pages).is_some();
        if is_longer {
            // SAFETY: the caller's block, and the lock is held.
            unsafe { (*space.span(page)).pages = wanted };
        }
        return is_longer;
    }
    if wanted < pages {
        // SAFETY: only its owner, the caller, changes the description of a block.
        let was_moved = unsafe {
            let span = &mut *space.span(page);
            span.pages = wanted;
            // A cut beyond the end moves to the end: the pages by which the block grows are not
            // moved pages.
            span.set_cuts(span.cuts().map(|cut| cut.min(wanted)));
            span.listed
        };
        let rest = Run { page: page + wanted, pages: pages - wanted, zero: false };
        if was_moved {
            // The mappings that the rest of the block adds stay.
            give_renewed(space, node, rest, 0);
        } else {
            Region::of(space, node).lock().give(space, rest, kernel::now_ms() as u32);
        }
    }
    true
}

/// Moves the contents of a block to a larger one, and frees it. Returns the same as [`free`].
///
/// # Safety
/// Both blocks belong to the caller, and `to` is longer.
#[must_use]
pub unsafe fn replace(space: &AddressSpace, from: *mut u8, to: *mut u8) -> u32 {
    let block = find(space, from);
    let (_, page, pages) = block;
    let bytes = (pages - guard_pages()) as usize * PAGE;
    // SAFETY: by contract.
    unsafe {
        let is_empty = relocate::transfer(space, page, to, bytes);
        // The contents of guard pages stay there.
        free_with(space, block, from, is_empty && guard_pages() == 0)
    }
}
