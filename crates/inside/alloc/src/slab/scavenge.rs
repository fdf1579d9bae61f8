//! Scavenging: returns the free memory between the objects of a span, one system page at a time.
//!
//! If a few objects of many are kept, spans do not become free, but most of their pages hold no
//! object. Free objects contain no links, so those pages can be returned alone.

use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{self, PAGE};
use crate::layout::span::Use;
use crate::os::kernel;
use crate::page_heap::{PageHeap, Region};

/// Time without a returned object after which a span's free pages are given back.
const IDLE_MS: u32 = 2000;
/// Number of spans that are examined each time the lock is taken.
const BATCH: u32 = 1024;

/// Gives the free pages of idle spans back; whether some spans are not idle long enough.
pub fn purge(space: &AddressSpace, region: &Region, now_ms: u32) -> bool {
    let first = space.first_page(region.number);
    let mut waiting = false;
    let mut page = first + 1;
    loop {
        let mut pages = region.lock();
        let end = pages.frontier().min(page.saturating_add(BATCH));
        if page >= end {
            return waiting;
        }
        while page < end {
            let span = space.span(page);
            // SAFETY: below the frontier spans are accessible; the lock is held.
            let (state, length, is_candidate, since) = unsafe {
                let span = &*span;
                let is_candidate = span.state == Use::Small && span.listed && !span.zero;
                (span.state, span.pages, is_candidate, span.since)
            };
            if is_candidate {
                let idle = now_ms.wrapping_sub(since) as i32 >= IDLE_MS as i32;
                if idle {
                    // SAFETY: as above.
                    unsafe { (*span).zero = true };
                    purge_span(space, &mut pages, page);
                }
                waiting |= !idle;
            }
            page += if state == Use::Nothing { 1 } else { length };
        }
    }
}

/// Gives the free pages of one span back.
fn purge_span(space: &AddressSpace, heap: &mut PageHeap, page: u32) {
    let start = space.address_of(page);
    // SAFETY: the span is in use, and under the lock.
    let pages = unsafe { (*space.span(page)).pages };
    let info = &size_class::TABLE[space.entry(page).class()];
    let size = info.size as usize;
    let capacity = info.capacity_of(pages);
    let is_free = |index: usize| {
        // SAFETY: the free bits of that span, under the lock.
        index >= capacity || unsafe { *space.bits(page).add(index / 64) } >> (index % 64) & 1 == 1
    };
    // The smallest piece that can be returned.
    let bytes = kernel::page_size();
    let end = start + pages as usize * PAGE;
    let mut gap = start..start;
    for piece in (start.next_multiple_of(bytes)..end - end % bytes).step_by(bytes) {
        let objects = (piece - start) / size..(piece + bytes - start).div_ceil(size);
        if objects.into_iter().all(is_free) {
            gap = if gap.is_empty() { piece } else { gap.start }..piece + bytes;
        } else {
            give_back(&gap);
            gap = piece..piece;
        }
    }
    give_back(&gap);
    heap.note_returned(space, page..page + pages);
}

fn give_back(gap: &core::ops::Range<usize>) {
    if !gap.is_empty() {
        // SAFETY: no object lies there, and none can be handed out while the lock is held.
        let _ = unsafe { kernel::discard(gap.start, gap.len()) };
    }
}
