//! Large blocks: runs of pages straight from the page heap of a region.

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
    /// Its start; null when there is no memory.
    pub start: *mut u8,
    /// Whether it is all zeroes.
    pub zero: bool,
}

impl Block {
    /// There is no memory.
    pub const NOTHING: Self = Self { start: null_mut(), zero: false };
}

/// Pages at the end of a block that nobody may touch.
fn guard_pages() -> u32 {
    u32::from(config::get().harden)
}

/// Mappings that an inaccessible end adds to the process: its own, and that of what follows.
const GUARD_MAPPINGS: u32 = 2;

/// Makes the end of a block inaccessible, or accessible again; whether that was possible.
fn guard(space: &AddressSpace, page: u32, pages: u32, accessible: bool) -> bool {
    let guard = guard_pages();
    let start = space.address_of(page + pages - guard);
    // SAFETY: those pages are the block's, beyond what its owner may use.
    unsafe { kernel::protect(start, guard as usize * PAGE, accessible) }.is_ok()
}

/// The pages of a block whose end is accessible again. Where the kernel refuses that (RLIMIT_DATA),
/// the end is left out: nobody may get it.
fn open_end(space: &AddressSpace, run: Run) -> Run {
    match guard_pages() {
        0 => run,
        _ if guard(space, run.page, run.pages, true) => run,
        guard => Run { pages: run.pages - guard, ..run },
    }
}

/// The region that a block of `size` bytes comes from which a thread on this node asks for.
pub fn region(space: &AddressSpace, size: usize, node: usize) -> usize {
    match space.nodes().interleaved() {
        Some(region) if size >= INTERLEAVE_FROM => region,
        _ => space.nodes().blocks(node),
    }
}

/// Takes a block for `size` bytes at a multiple of `align`, a power of two, from this node
/// or, when that has no room, from another one.
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
    let (_, page, pages) = find(space, old);
    if pages < MOVE_FROM || align > PAGE {
        return allocate(space, node, size, align);
    }
    // Huge pages move whole where the new block lies as the old one does in 2 MiB.
    let rest = (space.address_of(page) / PAGE) as u32 % HUGE_PAGES;
    let block = take(space, node, size, Begin { by: HUGE_PAGES, rest }, Purpose::Target);
    // Where memory is short there may be room for one that lies otherwise.
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

/// Pages for so many bytes, at least one; `None` when a node cannot have them.
fn pages_of(space: &AddressSpace, bytes: usize) -> Option<u32> {
    (bytes <= space.stride()).then(|| bytes.div_ceil(PAGE).max(1) as u32)
}

/// Enters a block into the table, and guards its end if that is wanted. The caller holds the
/// lock, or owns the pages.
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

/// The block at an address: node, first page and pages; `None` when none starts there.
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
    // SAFETY: below the frontier spans are accessible; of a block only its owner, the caller,
    // changes the description.
    let span = unsafe { &*space.span(page) };
    (span.state == Use::Large).then_some((node, page, span.pages))
}

/// The same; ends the process when none starts there.
fn find(space: &AddressSpace, pointer: *mut u8) -> (usize, u32, u32) {
    look(space, pointer).unwrap_or_else(|| match space.node_of(pointer as usize) {
        Some(_) => report::bad_free(pointer as usize, explain(pointer as usize)),
        None => report::bad_free(pointer as usize, report::FOREIGN),
    })
}

/// Whether a block without a guard holds `size` bytes in as few pages as it has.
#[inline(always)]
pub fn fits(space: &AddressSpace, pointer: *mut u8, size: usize) -> bool {
    look(space, pointer).is_some_and(|(_, _, pages)| size.div_ceil(PAGE) == pages as usize)
}

/// What is wrong with a pointer into the payload at which nothing starts.
fn explain(address: usize) -> &'static str {
    if !address.is_multiple_of(QUANTUM) {
        report::MISALIGNED
    } else {
        "no block starts there: it was freed before, or it points into one"
    }
}

/// Frees a block; the number under which the heap profile remembers it, or 0.
#[must_use]
pub fn free(space: &AddressSpace, pointer: *mut u8) -> u32 {
    free_with(space, find(space, pointer), pointer, false)
}

/// Frees a block, of which nothing is in memory if `is_empty`; as [`free`].
fn free_with(
    space: &AddressSpace,
    (node, page, pages): (usize, u32, u32),
    pointer: *mut u8,
    is_empty: bool,
) -> u32 {
    let mut heap = Region::of(space, node).lock();
    // SAFETY: the block is the caller's until here; the lock is held.
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

/// Gives back pages of a block whose mapping is not that of its neighbours, after it was made
/// theirs again.
fn give_renewed(space: &AddressSpace, node: usize, run: Run, added: u32) {
    let Some(run) = renew(space, node, run, added) else { return };
    Region::of(space, node).lock().give(space, run, kernel::now_ms() as u32);
}

/// Makes the mapping of pages that are nobody's that of their neighbours; what of them may be used
/// again. `None` when they may not be mapped any more.
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
    // SAFETY: as above. What is locked stays; where something is missing, it says ENOMEM.
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

/// Makes a block shorter or longer where it is; whether that was possible.
pub fn resize(space: &AddressSpace, pointer: *mut u8, size: usize) -> bool {
    let (node, page, pages) = find(space, pointer);
    // A guarded end cannot move.
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
            // One that lies behind the end moves there: what the block grows by is not moved.
            span.set_cuts(span.cuts().map(|cut| cut.min(wanted)));
            span.listed
        };
        let rest = Run { page: page + wanted, pages: pages - wanted, zero: false };
        if was_moved {
            // What the rest of the block adds to the mappings stays.
            give_renewed(space, node, rest, 0);
        } else {
            Region::of(space, node).lock().give(space, rest, kernel::now_ms() as u32);
        }
    }
    true
}

/// Moves the contents of a block to a larger one, and frees it; as [`free`].
///
/// # Safety
/// Both blocks are the caller's, and `to` is longer.
#[must_use]
pub unsafe fn replace(space: &AddressSpace, from: *mut u8, to: *mut u8) -> u32 {
    let block = find(space, from);
    let (_, page, pages) = block;
    let bytes = (pages - guard_pages()) as usize * PAGE;
    // SAFETY: by contract.
    unsafe {
        let is_empty = relocate::transfer(space, page, to, bytes);
        // What lies in a guarded end stays there.
        free_with(space, block, from, is_empty && guard_pages() == 0)
    }
}
