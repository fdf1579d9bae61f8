//! Memory between the objects of a span: given back system page by system page.
//!
//! When few objects of many are kept, spans do not become free, but most of their pages
//! hold no object. As free objects carry no links, those pages can be given back alone.

use crate::class::{self, PAGE};
use crate::kernel;
use crate::node::Node;
use crate::pages::PageHeap;
use crate::space::Space;
use crate::span::Use;

/// Time without a returned object after which a span's holes are given back.
const IDLE_MS: u32 = 2000;
/// Spans looked at under the lock at a time.
const BATCH: u32 = 1024;

/// Gives the holes of idle spans back; whether some spans are not idle long enough.
pub fn purge(space: &Space, node: &Node, now_ms: u32) -> bool {
    let first = space.first_page(node.number);
    let mut waiting = false;
    let mut page = first + 1;
    loop {
        let mut pages = node.pages.lock();
        let end = pages.frontier().min(page.saturating_add(BATCH));
        if page >= end {
            return waiting;
        }
        while page < end {
            // SAFETY: below the frontier spans are accessible; the lock is held.
            let span = unsafe { &mut *space.span(page) };
            if span.state == Use::Small && span.listed && !span.zero {
                let idle = now_ms.wrapping_sub(span.since) as i32 >= IDLE_MS as i32;
                if idle {
                    span.zero = true;
                    purge_span(space, &mut pages, page);
                }
                waiting |= !idle;
            }
            page += match span.state {
                Use::Nothing => 1,
                _ => span.pages,
            };
        }
    }
}

/// Gives the holes of one span back.
fn purge_span(space: &Space, _lock: &mut PageHeap, page: u32) {
    let start = space.address_of(page);
    // SAFETY: the span is in use, and under the lock.
    let (pages, bin) = unsafe { ((*space.span(page)).pages, *space.map(page)) };
    let info = class::of_bin(usize::from(bin));
    let size = info.size as usize;
    let is_free = |index: usize| {
        // SAFETY: the free bits of that span, under the lock.
        index >= info.capacity as usize
            || unsafe { *space.bits(page).add(index / 64) } >> (index % 64) & 1 == 1
    };
    // The smallest piece that can be given back.
    let bytes = kernel::page_size();
    let end = start + pages as usize * PAGE;
    let mut hole = start..start;
    for piece in (start.next_multiple_of(bytes)..end - end % bytes).step_by(bytes) {
        let objects = (piece - start) / size..(piece + bytes - start).div_ceil(size);
        if objects.into_iter().all(is_free) {
            hole = if hole.is_empty() { piece } else { hole.start }..piece + bytes;
        } else {
            give_back(&hole);
            hole = piece..piece;
        }
    }
    give_back(&hole);
}

fn give_back(hole: &core::ops::Range<usize>) {
    if !hole.is_empty() {
        // SAFETY: no object lies there, and none can be handed out while the lock is held.
        let _ = unsafe { kernel::discard(hole.start, hole.len()) };
    }
}
