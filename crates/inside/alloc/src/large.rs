//! Large blocks: runs of pages straight from the page heap of a node.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use crate::class::{GRAIN, PAGE};
use crate::pages::{Purpose, Run, pages_in};
use crate::profile;
use crate::report;
use crate::space::Space;
use crate::span::{Span, Use};
use crate::{config, kernel};

/// From this many pages on, a block is moved by the page tables instead of copied.
const MOVE_FROM: u32 = pages_in(2 << 20);

/// A block, and whether it is known to be all zeroes.
#[derive(Clone, Copy)]
pub struct Block {
    /// Its start; null when there is no memory.
    pub start: *mut u8,
    /// Whether it is all zeroes.
    pub zero: bool,
}

/// Pages at the end of a block that nobody may touch.
fn guard_pages() -> u32 {
    u32::from(config::get().harden)
}

/// Makes the end of a block inaccessible, or accessible again.
fn guard(space: &Space, page: u32, pages: u32, accessible: bool) {
    let guard = guard_pages();
    if guard > 0 {
        let start = space.address_of(page + pages - guard);
        // SAFETY: those pages are the block's, beyond what its owner may use.
        let _ = unsafe { kernel::protect(start, guard as usize * PAGE, accessible) };
    }
}

/// Takes a block for `size` bytes at a multiple of `align`, a power of two, from this node
/// or, when that has no room, from another one.
pub fn allocate(space: &Space, node: usize, size: usize, align: usize) -> Block {
    let nothing = Block { start: null_mut(), zero: false };
    let count = space.nodes().regions();
    let (Some(pages), Some(align)) = (pages_of(space, size), pages_of(space, align)) else {
        return nothing;
    };
    let pages = pages + guard_pages();
    for node in (node..count).chain(0..node.min(count)) {
        let mut heap = space.node(node).pages.lock();
        if let Some(run) = heap.take(space, pages, align, Purpose::Block) {
            describe(space, run.page, pages);
            guard(space, run.page, pages, false);
            return Block { start: space.address_of(run.page) as *mut u8, zero: run.zero };
        }
    }
    nothing
}

/// Pages for so many bytes, at least one; `None` when a node cannot have them.
fn pages_of(space: &Space, bytes: usize) -> Option<u32> {
    (bytes <= space.stride()).then(|| bytes.div_ceil(PAGE).max(1) as u32)
}

/// Enters a block into the table. The caller holds the lock, or owns the pages.
fn describe(space: &Space, page: u32, pages: u32) {
    // SAFETY: the pages belong to the caller.
    unsafe {
        *space.span(page) = Span { state: Use::Large, pages, ..Span::NOTHING };
    }
}

/// The block at an address: node, first page and pages; `None` when none starts there.
#[inline(always)]
fn look(space: &Space, pointer: *mut u8) -> Option<(usize, u32, u32)> {
    let address = pointer as usize;
    let node = space.node_of(address)?;
    let page = space.page_of(address);
    if !address.is_multiple_of(PAGE) || page >= space.node(node).reached.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: below the frontier spans are accessible; of a block only its owner, the caller,
    // changes the description.
    let span = unsafe { &*space.span(page) };
    (span.state == Use::Large).then_some((node, page, span.pages))
}

/// The same; ends the process when none starts there.
fn find(space: &Space, pointer: *mut u8) -> (usize, u32, u32) {
    look(space, pointer).unwrap_or_else(|| match space.node_of(pointer as usize) {
        Some(_) => report::bad_free(pointer as usize, explain(pointer as usize)),
        None => report::bad_free(pointer as usize, report::FOREIGN),
    })
}

/// Whether a block without a guard holds `size` bytes in as few pages as it has.
#[inline(always)]
pub fn fits(space: &Space, pointer: *mut u8, size: usize) -> bool {
    look(space, pointer).is_some_and(|(_, _, pages)| size.div_ceil(PAGE) == pages as usize)
}

/// What is wrong with a pointer into the payload at which nothing starts.
fn explain(address: usize) -> &'static str {
    if !address.is_multiple_of(GRAIN) {
        report::MISALIGNED
    } else {
        "no block starts there: it was freed before, or it points into one"
    }
}

/// Frees a block.
pub fn free(space: &Space, pointer: *mut u8) {
    let (node, page, pages) = find(space, pointer);
    let mut heap = space.node(node).pages.lock();
    // SAFETY: the block is the caller's until here; the lock is held.
    let span = unsafe { &mut *space.span(page) };
    if span.state != Use::Large {
        report::bad_free(pointer as usize, "it was freed by another thread at the same time");
    }
    span.state = Use::Nothing;
    let sample = core::mem::take(&mut span.free);
    if sample != 0 {
        profile::forget(sample);
    }
    guard(space, page, pages, true);
    heap.give(space, Run { page, pages, zero: false }, kernel::now_ms() as u32);
}

/// Bytes of a block.
pub fn usable_size(space: &Space, pointer: *mut u8) -> usize {
    (find(space, pointer).2 - guard_pages()) as usize * PAGE
}

/// Makes a block shorter or longer where it is; whether that was possible.
pub fn resize(space: &Space, pointer: *mut u8, size: usize) -> bool {
    let (node, page, pages) = find(space, pointer);
    // A guarded end cannot move.
    let Some(wanted) = pages_of(space, size).filter(|_| guard_pages() == 0) else { return false };
    if wanted == pages {
        return true;
    }
    let mut heap = space.node(node).pages.lock();
    if wanted < pages {
        let rest = Run { page: page + wanted, pages: pages - wanted, zero: false };
        heap.give(space, rest, kernel::now_ms() as u32);
    } else if heap.extend(space, page, pages, wanted - pages).is_none() {
        return false;
    }
    // SAFETY: the caller's block, and the lock is held.
    unsafe { (*space.span(page)).pages = wanted };
    true
}

/// Moves the contents of a block to a larger one.
///
/// # Safety
/// Both blocks are the caller's, and `to` is at least as long.
pub unsafe fn move_contents(space: &Space, from: *mut u8, to: *mut u8) {
    let (_, _, pages) = find(space, from);
    let bytes = (pages - guard_pages()) as usize * PAGE;
    // SAFETY: by contract.
    unsafe {
        if pages < MOVE_FROM || kernel::move_pages(from as usize, to as usize, bytes).is_err() {
            to.copy_from_nonoverlapping(from, bytes);
        }
    }
}
