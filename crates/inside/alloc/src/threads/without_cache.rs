//! Allocation and release for threads without a cache: directly from and to spans and pages, under
//! the node's lock.
//!
//! A thread has no cache at its end (`crate::threads`), when the C library and the program still
//! free what they kept for it, and if there was no memory for one. Its allocations are not sampled
//! for the heap profile.

use core::ptr::null_mut;

use crate::large::{self, Block};
use crate::layout::address_space::AddressSpace;
use crate::slab::{give_back, harden, spans};
use crate::{config, global};

/// An object of a class; null if there is no memory.
pub fn object(class: usize) -> *mut u8 {
    let Some(space) = global::get() else { return null_mut() };
    let node = space.nodes().current();
    match config::get().is_hardened() {
        true => harden::allocate(space, node, class),
        false => spans::take_one(space, node, class),
    }
}

/// A block of this size and alignment; null if there is no memory.
pub fn block(size: usize, align: usize) -> Block {
    let Some(space) = global::get() else { return Block::NOTHING };
    let region = large::region(space, size, space.nodes().current());
    large::allocate(space, region, size, align)
}

/// Takes back an object of this node.
pub fn release(space: &AddressSpace, home: usize, object: *mut u8) {
    give_back::return_objects(space, home, &[object]);
}
