//! The list of the spans of a class that have free objects.

use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::CLASSES;
use crate::page_heap::PageHeap;

/// Puts a span on the list of those with free objects.
pub fn add(space: &AddressSpace, pages: &mut PageHeap, class: usize, page: u32) {
    let head = core::mem::replace(&mut pages.partial[class], page);
    // SAFETY: spans in use, under the lock.
    unsafe {
        let span = &mut *space.span(page);
        span.listed = true;
        span.next = head;
        span.previous = 0;
        if head != 0 {
            (*space.span(head)).previous = page;
        }
    }
}

/// Removes a span from that list.
pub fn remove(space: &AddressSpace, pages: &mut PageHeap, class: usize, page: u32) {
    debug_assert!(class < CLASSES);
    // SAFETY: spans in use, under the lock.
    unsafe {
        let span = &mut *space.span(page);
        span.listed = false;
        if span.next != 0 {
            (*space.span(span.next)).previous = span.previous;
        }
        if span.previous != 0 {
            (*space.span(span.previous)).next = span.next;
        } else {
            pages.partial[class] = span.next;
        }
    }
}
