//! The way back of small objects: from magazines to the bits of their spans, and from free spans to
//! the page heap.

use core::ops::Range;

use crate::central::magazine::Magazine;
use crate::central::node_state::NodeState;
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::Entry;
use crate::layout::size_class;
use crate::layout::span::Use;
use crate::os::{kernel, report};
use crate::page_heap::run::Run;
use crate::page_heap::{PageHeap, Region};
use crate::slab::list;

/// Returns all objects of a magazine to their spans.
///
/// The magazine belongs to the caller, and holds that many objects of this node.
pub fn return_magazine(space: &AddressSpace, node: usize, magazine: *mut Magazine, objects: usize) {
    // SAFETY: the magazine was taken from a stack and is ours; that many words hold objects.
    let objects = unsafe { core::slice::from_raw_parts(Magazine::word(magazine, 1), objects) };
    return_objects(space, node, objects);
    // SAFETY: nothing refers to it.
    unsafe { NodeState::recycle(space, 0, magazine) };
}

/// Marks objects as free in their spans. A span that is entirely free goes back to the page heap.
///
/// The objects belong to this node, except for those that stayed here because they are not sent
/// home.
pub fn return_objects(space: &AddressSpace, node: usize, objects: &[*mut u8]) {
    let now_ms = kernel::now_ms() as u32;
    let mut held = node;
    let mut pages = Region::of(space, held).lock();
    for &object in objects {
        let home = space.node_of(object as usize).unwrap_or(held);
        if home != held {
            drop(pages);
            held = home;
            pages = Region::of(space, held).lock();
        }
        // SAFETY: the pointers come from magazines: freed objects of that node.
        unsafe { return_object(space, &mut pages, object as usize, now_ms) };
    }
}

/// Returns memory of a span that was never divided into objects.
pub fn return_fresh(space: &AddressSpace, node: usize, class: usize, fresh: Range<usize>) {
    if !fresh.is_empty() {
        return_fresh_locked(space, &mut Region::of(space, node).lock(), class, fresh);
    }
}

/// The same, under the node's lock.
pub fn return_fresh_locked(
    space: &AddressSpace,
    pages: &mut PageHeap,
    class: usize,
    fresh: Range<usize>,
) {
    let now_ms = kernel::now_ms() as u32;
    for object in fresh.step_by(size_class::TABLE[class].size as usize) {
        // SAFETY: addresses of objects of a span that the caller took and never handed out.
        unsafe { return_object(space, pages, object, now_ms) };
    }
}

/// # Safety
/// `object` is an address within a span of small objects of this node, whose lock is held.
unsafe fn return_object(space: &AddressSpace, pages: &mut PageHeap, object: usize, now_ms: u32) {
    let page = space.page_of(object);
    let class = space.entry(page).class();
    // SAFETY: by contract the page belongs to a span in use.
    let page = page - u32::from(unsafe { (*space.span(page)).back });
    let info = &size_class::TABLE[class];
    let (index, exact) = info.index_of(object - space.address_of(page));
    if !exact || class == 0 {
        report::bad_free(object, "it points into an object, not to its start");
    }
    // SAFETY: the free bits and the description of that span, under the lock.
    let (word, span) = unsafe { (&mut *space.bits(page).add(index / 64), &mut *space.span(page)) };
    let bit = 1 << (index % 64);
    if *word & bit != 0 {
        report::bad_free(object, "it was freed before");
    }
    *word |= bit;
    span.free += 1;
    span.zero = false;
    span.since = now_ms;
    if span.free as usize == info.capacity_of(span.pages) {
        if span.listed {
            list::remove(space, pages, class, page);
        }
        dissolve(space, pages, class, page, now_ms);
    } else if !span.listed {
        list::add(space, pages, class, page);
    }
}

/// Gives a span that is entirely free to the page heap.
fn dissolve(space: &AddressSpace, pages: &mut PageHeap, class: usize, page: u32, now_ms: u32) {
    // SAFETY: the span is in use and under the lock.
    let length = unsafe { (*space.span(page)).pages };
    for back in 0..length {
        space.set_entry(page + back, Entry::NONE);
        // SAFETY: as above; nothing refers to its objects.
        unsafe { (*space.span(page + back)).back = 0 };
    }
    // SAFETY: as above.
    unsafe {
        (*space.span(page)).state = Use::Nothing;
        space.bits(page).write_bytes(0, size_class::TABLE[class].capacity_of(length).div_ceil(64));
    }
    let run = Run { page, pages: length, zero: false };
    pages.give(space, run, now_ms);
}
