//! Hardened mode: every object goes through its span's bits.
//!
//! The bins of hardened caches are empty, so every call takes the slow path. There, the bits show
//! exactly which objects are free. A second free, or a free of a pointer into an object, ends the
//! process. Freed memory is reused in random order, and not at once.

use core::ptr::null_mut;

use crate::layout::address_space::AddressSpace;
use crate::layout::size_class;
use crate::os::random;
use crate::page_heap::{PageHeap, Region};
use crate::slab::{give_back, spans};

/// An object of a class, chosen at random among the free ones; null if there is no memory.
pub fn allocate(space: &AddressSpace, node: usize, class: usize) -> *mut u8 {
    let mut pages = Region::of(space, node).lock();
    if pages.partial[class] == 0 {
        let Some(objects) = spans::take_span(space, &mut pages, class) else { return null_mut() };
        // The last object stays out until the others are in, because a span that is entirely free
        // would go straight back.
        let last = objects.end - size_class::TABLE[class].size as usize;
        give_back::return_fresh_locked(space, &mut pages, class, objects.start..last);
        return last as *mut u8;
    }
    let page = pages.partial[class];
    pick(space, &mut pages, class, page)
}

/// Takes a free object of a listed span: the first one from a random position on.
fn pick(space: &AddressSpace, pages: &mut PageHeap, class: usize, page: u32) -> *mut u8 {
    let info = &size_class::TABLE[class];
    let words = spans::capacity(space, pages, class, page).div_ceil(64);
    let random = random::word();
    let (first, shift) = (random as usize % words, (random >> 32) as u32 % 64);
    for word in (first..words).chain(0..first) {
        // SAFETY: the free bits of a span in use, under the lock.
        let bits = unsafe { &mut *space.bits(page).add(word) };
        if *bits != 0 {
            let bit = (bits.rotate_right(shift).trailing_zeros() + shift) % 64;
            *bits &= !(1 << bit);
            let index = word * 64 + bit as usize;
            spans::took(space, pages, class, page, 1);
            return (space.address_of(page) + index * info.size as usize) as *mut u8;
        }
    }
    null_mut()
}
